"""Faults of the schemas that code offers."""

from __future__ import annotations

import sys
from typing import Any, Final

from django.core import checks
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name

from mcp_app.catalogue.definitions.registry import registry
from mcp_app.checks.configuration import TAG

# Commands that come before the tables: a schema may be read from them.
_BEFORE_TABLES: Final = ("migrate", "makemigrations")


@checks.register(TAG)
def schemas_can_be_read(**_: Any) -> list[CheckMessage]:
    """Report tools whose schemas cannot be read; a warning, because an error would stop ``migrate``."""
    if sys.argv[1:2] and sys.argv[1] in _BEFORE_TABLES:
        return []
    hint = "Clients are not offered this tool; all others are served."
    return [Warning(str(error), hint=hint, id="mcp_app.W034") for error in registry.unreadable_tools()]
