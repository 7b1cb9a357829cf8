"""What docs/embedding.md tells a reader to do, in its order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "embedding.md"
AT_THE_END = ", at the end"


@dataclass(frozen=True, slots=True)
class Step:
    """A command, or a file to write; ``appends`` to what is there."""

    command: str = ""
    path: str = ""
    content: str = ""
    appends: bool = False


def steps() -> list[Step]:
    """Every block, a shell's line by line."""
    found: list[Step] = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        if language == "sh":
            found += [Step(command=line) for line in block.splitlines()]
        else:
            assert language == "python", f"a block of {PAGE.name} is neither for a shell nor Python"
            named = block.splitlines()[0].removeprefix("# ")
            found.append(
                Step(path=named.removesuffix(AT_THE_END), content=block, appends=named.endswith(AT_THE_END))
            )
    return found
