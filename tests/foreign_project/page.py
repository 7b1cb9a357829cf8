"""The steps of docs/embedding.md, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "embedding.md"
AT_THE_END = ", at the end"


@dataclass(frozen=True, slots=True)
class Step:
    """A command, or a file to write or, with ``appends``, to extend. ``section`` is the heading above it."""

    section: str
    command: str = ""
    path: str = ""
    content: str = ""
    appends: bool = False


def steps() -> list[Step]:
    """Return every block, shell blocks line by line."""
    found: list[Step] = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE):
        heading = section.splitlines()[0]
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
            if language == "sh":
                found += [Step(heading, command=line) for line in block.splitlines()]
            else:
                assert language == "python", f"a block of {PAGE.name} is neither for a shell nor Python"
                found.append(_file(heading, block))
    return found


def _file(section: str, block: str) -> Step:
    named = block.splitlines()[0].removeprefix("# ")
    return Step(
        section, path=named.removesuffix(AT_THE_END), content=block, appends=named.endswith(AT_THE_END)
    )
