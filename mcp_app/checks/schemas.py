"""Checks of the schemas of tools in code."""

from __future__ import annotations

import sys
from typing import Any, Final

from django.core import checks
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured

from mcp_app import conf
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.checks.configuration import TAG

# Commands that run before the tables exist. A schema may be derived from a table.
_BEFORE_TABLES: Final = ("migrate", "makemigrations")


@checks.register(TAG)
def schemas_can_be_read(**_: Any) -> list[CheckMessage]:
    """Warn about tools whose schemas cannot be read. An error would prevent ``migrate`` from running."""
    if _comes_before_tables():
        return []
    hint = "This tool is not offered. All others are."
    return [Warning(str(error), hint=hint, id="mcp_app.W034") for error in registry.unreadable_tools()]


@checks.register(TAG)
def clients_take_all_tools(**_: Any) -> list[CheckMessage]:
    """Warn about tools that known clients reject. If STRICT_SCHEMAS is set, report errors instead."""
    try:
        strict = conf.get().strict_schemas
    except ImproperlyConfigured:
        return []  # E001 reports it.
    if _comes_before_tables():
        return []
    kind, number = (Error, "mcp_app.E036") if strict else (Warning, "mcp_app.W035")
    return [kind(str(each), hint=each.rule.remedy, id=number) for each in registry.refused_tools()]


def _comes_before_tables() -> bool:
    return sys.argv[1:2] != [] and sys.argv[1] in _BEFORE_TABLES
