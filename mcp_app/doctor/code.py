"""Checks of the project's code.

They find edits that cannot be loaded, viewsets that are not exposed, and schemas that clients reject.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mcp_app import conf, optional_parts
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.code_fault import CodeFault
from mcp_app.doctor.finding import Finding, error, ok, warning
from mcp_app.doctor.installation import Installation

SHOWN = 5


def fault() -> CodeFault | None:
    """Return the error in the newest edit of the code.

    Returns None if the newest code is served, or if edits are not watched.
    """
    file = conf.get().code_fault_file
    return CodeFault.read(Path(file)) if file else None


def edited(_: Installation) -> Iterator[Finding]:
    """Report an edit that cannot be loaded. Without one, report nothing."""
    if (found := fault()) is not None:
        text = f"the edited code cannot be loaded, so the previous code is served: {found}"
        yield error("code.edited", text, "Correct it. It is then served within seconds.")


def viewsets(_: Installation) -> Iterator[Finding]:
    """Report viewsets that the project could expose as tools, and the code that exposes them."""
    if optional_parts.API.missing():
        return
    from mcp_app.catalogue.exposure.viewsets.candidates import candidates

    if lines := candidates():
        more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
        yield ok("code.viewsets", f"not offered as tools: {'; '.join(lines[:SHOWN])}{more}")


def schemas(_: Installation) -> Iterator[Finding]:
    """Report tools that are not offered because their schemas cannot be read."""
    for problem in registry.unreadable_tools():
        yield error("code.schemas", f"a tool is not offered: {problem}", "Follow the message, and restart.")


def clients(_: Installation) -> Iterator[Finding]:
    """Report tools that known clients reject."""
    found = list(registry.refused_tools())
    for each in found[:SHOWN]:
        yield warning("code.clients", str(each), each.rule.remedy)
    if len(found) > SHOWN:
        yield warning("code.clients", f"{len(found) - SHOWN} more of this kind", "Run `manage.py check`.")


CHECKS = (edited, viewsets, schemas, clients)
