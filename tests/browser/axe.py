"""Axe on a page: violations of the WCAG 2.2 A and AA rules, and of its best practices."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from playwright.sync_api import Page

from tests.clients import node

TAGS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice")
RULES: Final = {"type": "tag", "values": list(TAGS)}
# The rules whose verdict the colour scheme of a page can change.
COLOURS: Final = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# Without ``preload``: the pages' policy lets no script fetch a style sheet.
LOOK: Final = """async (runOnly) => (await axe.run(document, {
  runOnly, preload: false, resultTypes: ["violations"],
})).violations.map(({ id, help, nodes }) => `${id}: ${help}: ` +
  nodes.slice(0, 3).map(({ html, any }) => `${html.slice(0, 160)} ${any[0]?.message ?? ""}`).join(" | "))"""


@cache
def program() -> str:
    """Return the source of axe; raise NodeUnavailable if npm packages are unavailable."""
    return (node.install("axe") / "axe-core" / "axe.min.js").read_text()


def violations(page: Page, rules: dict[str, Any] = RULES) -> list[str]:
    """Return the violations of the current page."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(program())
    found: list[str] = page.evaluate(LOOK, rules)
    return found


def seen(page: Page, rules: dict[str, Any] = RULES) -> list[str]:
    """Return the violations of the page, or none if axe is unavailable; CI has it."""
    try:
        program()
    except node.NodeUnavailable:
        return []
    return violations(page, rules)
