"""Rendering of prompts created in the admin: placeholder replacement and nothing else."""

from __future__ import annotations

import pytest

from mcp_app.catalogue.sources.content.rendering import placeholders, render


@pytest.mark.requirement("PROMPT-05")
@pytest.mark.parametrize(
    "template",
    [
        "{{7*7}}", "{% load static %}", "{0.__class__}", "${name}", "%(name)s",
        "{{ name.upper }}", "{{name|safe}}", "{{__class__.__mro__}}", "{{ unknown }}", "{name}", "{{}}",
        "{{na me}}", "{# name #}", "{{name", "{{name\n}}",
    ],
)  # fmt: skip
def test_undeclared_placeholders_and_template_syntax_stay_unchanged(template: str) -> None:
    assert render(template, {"name": "X"}, frozenset({"name"})) == template


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("Hi {{name}}!", "Hi X!"),
        ("{{ name }}{{name}}", "XX"),
        ("{{{name}}}", "{X}"),
        ("{{{{name}}}}", "{{X}}"),
        ("{{other}}.", "."),
    ],
)
def test_declared_placeholder_is_replaced_and_missing_argument_is_empty(template: str, rendered: str) -> None:
    assert render(template, {"name": "X"}, frozenset({"name", "other"})) == rendered


def test_placeholder_inside_argument_is_not_expanded() -> None:
    arguments = {"name": "{{other}} \\1 \\g<0>", "other": "secret"}
    assert render("{{name}}", arguments, frozenset(arguments)) == "{{other}} \\1 \\g<0>"


def test_placeholders_are_listed_once_in_order() -> None:
    assert placeholders("{{b}} {{a}} {{ b }} {{7}}") == ["b", "a"]
