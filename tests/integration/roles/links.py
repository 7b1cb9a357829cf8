"""Requests that a page offers: links, buttons, list actions, and addresses in its data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from tests.integration.roles.table import Person, Way, ways
from tests.integration.roles.ways_there_are import OF_CLIENTS

SAVING: Final = ("_save", "_continue", "_addanother", "_saveasnew")
# In a page's data, or in JSON it fetches.
TOLD: Final = re.compile(r'"(/(?:admin|console|api)/[^"\s]*)"')

Attributes = dict[str, str]


class Offers(HTMLParser):
    """A parser that collects the requests that a page offers, as (method, address, variant)."""

    def __init__(self, text: str, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self._address = address
        self._forms: dict[str, tuple[str, str]] = {}
        self._buttons: list[tuple[Attributes, str]] = []
        self._actions: list[str] = []
        self._form = self._select = ""
        self.found: set[tuple[str, str, str | None]] = set()
        self.feed(text)
        for told in TOLD.findall(text):
            self._add("ANY", told, None)
        self._press()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in own:
            self._add("GET", own["href"], None)
        elif tag == "form":
            self._form = own.get("id") or f"form {len(self._forms)}"
            self._forms[self._form] = (own.get("method", "get").upper(), own.get("action", ""))
        elif tag in ("button", "input") and own.get("type", "submit" if tag == "button" else "") == "submit":
            self._buttons.append((own, own.get("form") or self._form))
        elif tag == "select":
            self._select = own.get("name", "")
        elif tag == "option" and self._select == "action" and own.get("value"):
            self._actions.append(own["value"])
        for name, value in own.items():
            if name.startswith("data-") and value.startswith("/"):
                self._add("ANY", value, None)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = ""

    def _press(self) -> None:
        for name in self._actions:
            self._add("POST", "", f"action={name}")
        for button, form in self._buttons:
            method, action = self._forms.get(form, ("GET", ""))
            if method == "POST":
                self._add("POST", button.get("formaction") or action, self._variant(button))

    def _variant(self, button: Attributes) -> str | None:
        """Return the action of a button whose address has several; None if the address has one."""
        name = button.get("name", "")
        if name == "_draft":
            return "_draft"
        return "" if name in SAVING else None

    def _add(self, method: str, target: str, variant: str | None) -> None:
        whole = urlsplit(urljoin(f"http://here{self._address}", target))
        if whole.netloc == "here" and not target.startswith("#"):
            self.found.add((method, whole.path, variant))


def refused(text: str, address: str, person: Person) -> Iterator[str]:
    """Yield the requests that a page offers and the table denies to the user."""
    for method, target, variant in sorted(Offers(text, address).found, key=str):
        if target.startswith(("/static/", *OF_CLIENTS)) or "SESSION" in target or target == "/console/ws":
            continue
        possible = [way for way in meant(method, target) if variant in (None, way.variant)]
        if not any(way.is_open_to(person) for way in possible):
            yield f"{address} offers {method} {target} {variant or ''}: {[str(way) for way in possible]}"


@lru_cache(maxsize=2_000)
def meant(method: str, address: str) -> list[Way]:
    """Return the ways of an address, by the most literal pattern."""
    found = [way for way in ways() if method in ("ANY", way.method) and way.pattern.fullmatch(address)]
    most: Any = max((_literal(way) for way in found), default=None)
    return [way for way in found if _literal(way) == most]


def _literal(way: Way) -> tuple[bool, int]:
    return "<any>" not in way.path, -way.path.count("<id>")
