"""Code that was edited and cannot be loaded, while the code from before is served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mcp_app import conf
from mcp_app.code_fault import CodeFault
from mcp_app.doctor.finding import Finding, error
from mcp_app.doctor.installation import Installation


def fault() -> CodeFault | None:
    """The mistake in the newest edit; None where it is served, and where no edits are watched for."""
    file = conf.get().code_fault_file
    return CodeFault.read(Path(file)) if file else None


def edited(_: Installation) -> Iterator[Finding]:
    """Only what is wrong: most installations are never edited while they run."""
    if (found := fault()) is not None:
        text = f"the edited code cannot be loaded, so the code from before is served: {found}"
        yield error("code.edited", text, "Correct it: it is then served within seconds.")


CHECKS = (edited,)
