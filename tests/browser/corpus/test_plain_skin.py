"""The same walk in Django's own admin, for projects without Unfold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.corpus.conftest import Walk
from tests.browser.corpus.walk import plain, stops


@pytest.fixture(scope="module")
def settings_module() -> str:
    """Return settings without the skin."""
    return "tests.browser.corpus.plain_settings"


@pytest.mark.every_look
@pytest.mark.parametrize(("scheme", "widths"), [("light", (1440, 390)), ("dark", (390, 1440))])
def test_hostile_text_on_every_page_stays_text_without_the_skin(
    scheme: str, widths: tuple[int, int], walk: Walk, keys: dict[str, Any]
) -> None:
    visitor = walk(scheme, widths[0])
    found = [
        fault
        for stop in stops(keys)
        if plain(stop)
        for fault in visitor.visit(stop, widths, f"plain-{scheme}")
    ]
    assert found == []
