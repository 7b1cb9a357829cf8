"""A fault because of which application code cannot be loaded, and the file that reports it meanwhile."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

PACKAGE: Final = str(Path(__file__).parent)
APPS: Final = f"{PACKAGE}/contrib/"


@dataclass(frozen=True, slots=True)
class CodeFault:
    """A fault in code: its position, Python's message, and lines of the traceback for developers."""

    file: str
    line: int
    text: str
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: BaseException, folders: Iterable[str]) -> Self:
        """Build the fault at the innermost frame in ``folders``, or at the innermost of all frames."""
        within = tuple(f"{folder.rstrip('/')}/" for folder in folders)
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith(within)]
        if getattr(error, "blames_caller", False):
            # If the project is a clone of this repository, the code of this app is in these folders, too.
            own = [frame for frame in own if not _refuses(frame.filename)] or own
        last = (own or frames)[-1:]
        file, line = (last[0].filename, last[0].lineno) if last else ("", 0)
        if isinstance(error, SyntaxError) and error.filename:
            file, line = error.filename, error.lineno
        said = traceback.format_exception_only(error)
        full = "".join([*traceback.format_list(own), *said])
        return cls(file, line or 0, " ".join(said[-1].split()), tuple(full.splitlines()))

    def __str__(self) -> str:
        """Return one line that begins with file and line number, which terminals and editors can open."""
        return f"{self.file}:{self.line}: {self.text}" if self.file else self.text

    def is_in(self, folders: Iterable[str]) -> bool:
        """Return True if the fault is in a file in one of these folders."""
        return self.file.startswith(tuple(f"{folder.rstrip('/')}/" for folder in folders))

    def write(self, path: Path) -> None:
        """Write the fault to the file from which serving processes read it."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the current fault, or None."""
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            return None
        return cls(**{**found, "lines": tuple(found["lines"])})


def _refuses(file: str) -> bool:
    return file.startswith(f"{PACKAGE}/") and not file.startswith(APPS)
