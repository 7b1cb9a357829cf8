"""The source of entries that code defines: decorated functions, views, models and Celery tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.definitions.definition import Definition
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.sources.base import USUAL_OF_CODE, Source
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool
from mcp_app.models.catalogue import Row


class CodeSource(Source):
    """The code of the installed apps. ``mirror`` copies its definitions into rows."""

    stored = label = "code"
    tone = "info"
    origin = "code"
    usual = USUAL_OF_CODE
    gone = "the code that defined it is not installed"
    returns = "Its code is gone: it comes back when the app that defines it is installed."
    unserved = ""
    travels = True
    rank = 0

    def provided(self, kind: type[Any]) -> Mapping[str, Definition]:
        """Return the definitions registered in this process."""
        homes: dict[type[Any], Mapping[str, Definition]] = {
            Tool: registry.tools,
            Prompt: registry.prompts,
            Resource: registry.resources,
            ResourceTemplate: registry.templates,
        }
        return homes[kind]

    def unavailable(self, kind: type[Any], key: str, row: Row | None) -> str:
        """Return the reason why a catalogue file cannot contain this entry here, or ""."""
        if row is not None and not row.missing:
            return ""
        if key in self.provided(kind):
            return "Its code is installed but not in the catalogue yet: run `manage.py mcp_prepare` first."
        return "Unknown to this installation: install the app that defines it, or take it out of the file."


CODE: Final = CodeSource()
