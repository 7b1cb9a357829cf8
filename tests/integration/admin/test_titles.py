"""Titles of pages: the frame shows them, so no page repeats its title as a heading."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from tests.samples.admin_seed import Seed

PAGES = ("apidocument_import", "limitrule_add", "toolset_add", "upstream_add", "upstream_bring")


@pytest.mark.parametrize("name", PAGES)
def test_title_of_a_form_is_not_repeated(name: str, root: Client, seeded: Seed) -> None:
    shown = root.get(reverse(f"admin:mcp_app_{name}"))
    text = shown.content.decode()
    title = escape(shown.context["title"])
    assert f'aria-label="{title}"' in text
    assert f"<h2>{title}</h2>" not in text
