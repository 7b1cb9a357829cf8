"""Entries from code: decorators and exposed views, models and Celery tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.definitions.definition import Definition
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.sources.base import Source
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool


class CodeSource(Source):
    """The code of the installed apps; ``mirror`` updates its rows."""

    stored = label = "code"
    tone = "info"
    origin = "code"
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


CODE: Final = CodeSource()
