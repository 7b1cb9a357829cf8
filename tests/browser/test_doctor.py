"""The doctor's page in a browser: an examination by one click, and again."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Visit, picture


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_examination_runs_by_one_click_and_shows_remedies(scheme: str, width: int, visit: Visit) -> None:
    visitor = visit(scheme=scheme, width=width)
    page = visitor.goto("/admin/mcp_app/doctor/")
    button = page.locator(".mcp-examine button")
    button.click()
    page.wait_for_selector("[data-doctor-result]", timeout=60_000)
    visitor.drawn()
    assert page.locator(".mcp-findings li").count() > 15
    # Without a worker: reported in its area, with a remedy.
    workers = page.get_by_role("region", name="Workers and beat")
    assert "no worker was seen" in workers.inner_text()
    assert "celery -A mcpsite worker" in workers.locator(".mcp-remedy").first.inner_text()
    assert button.is_enabled()
    assert button.inner_text() == "Run checks again"
    wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    picture(page, f"doctor-result-{scheme}-{width}")
    assert wide <= window
    assert visitor.trouble == []
