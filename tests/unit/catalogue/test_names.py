"""Names that are part of addresses, header fields and other names."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator

from mcp_app.protocol.messages.server import further_path

NAMED = [
    field
    for model in apps.get_app_config("mcp_app").get_models()
    for field in model._meta.concrete_fields
    if any(type(each) is RegexValidator for each in field.validators)
]


def test_all_kinds_of_names_are_checked() -> None:
    assert {field.model.__name__ for field in NAMED} >= {"ApiDocument", "LimitRule", "Toolset", "Upstream"}


@pytest.mark.parametrize("field", NAMED, ids=str)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028"], ids=ascii)
def test_name_ends_without_a_line_break(field: Any, end: str) -> None:
    field.run_validators("billing")
    with pytest.raises(ValidationError):
        field.run_validators(f"billing{end}")


def test_path_of_a_server_ends_without_a_line_break() -> None:
    assert further_path("/mcp/notes") == "/mcp/notes"
    assert further_path("/mcp/notes\n") == ""
