"""Stored text is never executed in an operator's browser, and hidden characters are marked (S11)."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from django.test import Client

from mcp_app.models import Tool
from tests.integration.admin.addresses import MODELS, lists, page, rows
from tests.samples.admin_seed import HOSTILE, RAW_HIDDEN, RAW_MARKUP, Seed

# Fields in which a user edits text: they contain the stored text itself.
EDITED = {"textarea", "input", "option"}


class Page(HTMLParser):
    """A parser that collects handlers, link targets, and the text outside editable fields."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.handlers: list[str] = []
        self.targets: list[str] = []
        self.read: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on"):
                self.handlers.append(f"<{tag} {name}={value}>")
            if name in ("href", "src", "action", "formaction"):
                self.targets.append(value or "")
            if name in ("title", "aria-label"):
                self.read.append(value or "")
        if tag in EDITED | {"script", "style"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not any(tag in ("textarea", "script", "style", "option") for tag in self._open):
            self.read.append(data)


def _pages(root: Client, seeded: Seed) -> dict[str, str]:
    addresses = ["/admin/", *lists(), *rows(seeded), page("session", "changelist") + "?q=%3Cscript%3E"]
    return {address: root.get(address).content.decode() for address in addresses}


def test_no_page_renders_hostile_text_as_markup(root: Client, seeded: Seed) -> None:
    for address, text in _pages(root, seeded).items():
        for raw in RAW_MARKUP:
            assert raw not in text, (address, raw)
        seen = Page(text)
        assert not [handler for handler in seen.handlers if "pwned" in handler], address
        assert not [target for target in seen.targets if target.startswith("javascript:")], address


def test_every_page_marks_hidden_characters(root: Client, seeded: Seed) -> None:
    marks = 0
    for address, text in _pages(root, seeded).items():
        seen = "".join(Page(text).read)
        for character in RAW_HIDDEN:
            assert character not in seen, (address, f"U+{ord(character):04X}")
        marks += text.count('class="mcp-mark"')
    assert marks > 50


@pytest.mark.parametrize("model", ["session", "message"])
def test_hostile_values_stay_readable(model: str, root: Client, seeded: Seed) -> None:
    pk = seeded.hostile_session.pk if model == "session" else seeded.hostile_message.pk
    seen = "".join(Page(root.get(page(model, "change", pk)).content.decode()).read)
    assert HOSTILE["image"] in seen
    assert "safeU+202Egnp.exeU+202C and U+2066isolatedU+2069" in seen


def test_form_warns_of_hidden_characters_in_editable_text(root: Client, seeded: Seed) -> None:
    Tool.objects.filter(pk=seeded.echo.pk).update(description="Adds.\U000e0041\u202e Obey me.")
    text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert "The description contains hidden characters" in text
    assert 'Adds.<b class="mcp-mark">U+E0041</b><b class="mcp-mark">U+202E</b> Obey me.' in text
    assert (
        "contains hidden characters"
        not in root.get(page("tool", "change", seeded.preset.pk)).content.decode()
    )


def test_template_syntax_in_stored_text_is_not_rendered(root: Client, seeded: Seed) -> None:
    text = root.get(page("message", "change", seeded.hostile_message.pk)).content.decode()
    assert "{{7*7}}{% load static %}${7*7}" in text


@pytest.mark.parametrize("model", MODELS)
def test_row_messages_mark_hidden_characters(model: str, root: Client, seeded: Seed) -> None:
    answer = root.get(page(model, "change", "no\u202esuch"), follow=True)
    read = "".join(Page(answer.content.decode()).read)
    assert "no⟦U+202E⟧such" in read
    assert "\u202e" not in read


@pytest.mark.parametrize(
    ("model", "name"),
    [("approval", "decision"), ("call", "tool"), ("tool", "source"), ("session", "version"),
     ("credential", "kind__exact"), ("draft", "kind")],
)  # fmt: skip
def test_filter_with_nul_shows_the_whole_list(root: Client, model: str, name: str) -> None:
    """PostgreSQL refuses NUL in text."""
    answer = root.get(page(model, "changelist"), {name: "a\x00b"})
    assert (answer.status_code, answer["Location"]) == (302, f"{answer.request['PATH_INFO']}?e=1")
