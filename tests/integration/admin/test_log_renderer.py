"""Inputs and selects without templates are those that Django writes."""

from __future__ import annotations

import pytest
from django.forms.renderers import DjangoTemplates
from django.http import QueryDict
from django.test.html import parse_html

from mcp_app.admin.log.form import TimelineForm

HOSTILE = (
    "q=\"><b>&target='%26amp;&outcome=error&direction=in&method=tools/call&before=1234&since=%3Ci%3E&order=x"
)


@pytest.mark.parametrize("query", ["", HOSTILE, "outcome=%22%3E&order=oldest&client=a%20b"])
def test_fields_have_the_html_of_the_templates_of_django(query: str) -> None:
    fast, usual = (
        TimelineForm(QueryDict(query), renderer=renderer) for renderer in (None, DjangoTemplates())
    )
    assert {name: parse_html(str(fast[name])) for name in fast.fields} == {
        name: parse_html(str(usual[name])) for name in usual.fields
    }
