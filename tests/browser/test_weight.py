"""The size of pages on a first visit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from hatchling.builders.wheel import WheelBuilder
from playwright.sync_api import Response, Route, expect

from mcpsite.frame.bundles import FOLDER, FOLDERS, RECORD, are_current
from tests.browser import bundles
from tests.browser.conftest import Visit, Visitor
from tests.clients import node
from tests.servers.live import LiveServer

# Including the page and its fonts, most of which come from the cache.
MOST_REQUESTS = 20
MOST_SENT_AGAIN = 20_000
# The API reference has a form for each operation.
MOST_OF_REFERENCE = 27_000
MOST_SENT = 300_000
MOST_OF_FONTS = 100_000
ROOT: Final = Path(__file__).resolve().parents[2]
# The page and all that it loaded, with the bytes that were sent for each.
LOADED: Final = """() => Object.fromEntries(
  [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .map(({ name, transferSize }, place) => [`${place} ${new URL(name).pathname}`, transferSize]))"""


def came(visitor: Visitor, path: str) -> dict[str, int]:
    """Return the transferred bytes of everything a page loads, by address."""
    answers: list[Response] = []
    visitor.page.on("response", lambda answer: answers.append(answer))
    visitor.goto(path)
    return {each.url.removeprefix(visitor.base): each.request.sizes()["responseBodySize"] for each in answers}


@pytest.fixture(scope="module")
def addresses(site: LiveServer) -> dict[str, str]:
    """Return the most visited pages."""
    code = """
from django.contrib.auth import get_user_model
from mcp_app.models import *
print(Tool.objects.get(name="echo").pk, ApiKey.objects.get(name="laptop").pk,
      get_user_model().objects.get(username="viewer").pk)
"""
    tool, key, user = site.shell(code).split()[-3:]
    return {
        "first page": "/admin/",
        "list": "/admin/mcp_app/tool/",
        "tool form": f"/admin/mcp_app/tool/{tool}/change/",
        "session": f"/console/sessions/{0:032x}/",
        "bench": f"/admin/mcp_app/tool/{tool}/try/",
        "key form": f"/admin/mcp_app/apikey/{key}/change/",
        "user form": f"/admin/auth/user/{user}/change/",
        "messages": "/admin/mcp_app/message/?live=1",
        "figures": "/admin/mcp_app/message/figures/",
        "notifications": "/notifications/",
        "connect": "/connect/",
        "API": "/api/docs/",
    }


@pytest.fixture
def bundled() -> None:
    """Skip the test without bundles."""
    try:
        bundles.build()
    except node.NodeUnavailable as missing:
        pytest.skip(f"needs npm packages: {missing}")


@pytest.mark.usefixtures("bundled")
def test_page_needs_few_requests_and_bytes_with_a_full_cache(addresses: dict[str, str], visit: Visit) -> None:
    visitor = visit()
    wrong = {}
    for name, path in addresses.items():
        visitor.goto(path)
        page = visitor.goto(path)
        loaded = page.evaluate(LOADED)
        again = sum(loaded.values())
        most = MOST_OF_REFERENCE if name == "API" else MOST_SENT_AGAIN
        if len(loaded) > MOST_REQUESTS or again > most:
            wrong[f"{name}: {len(loaded)} requests, {again} bytes"] = sorted(loaded)
    assert not wrong, json.dumps(wrong, indent=1)
    assert visitor.trouble == []


@pytest.mark.usefixtures("bundled")
def test_package_carries_the_bundles() -> None:
    names = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    written = {path.relative_to(ROOT).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert written
    assert written <= names


@pytest.mark.usefixtures("bundled")
def test_edited_source_replaces_the_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert are_current()
    recorded = json.loads((FOLDER / RECORD).read_text())
    edited = tmp_path / "mcp_app" / "keys.js"
    edited.parent.mkdir()
    edited.write_text("// edited")
    monkeypatch.setattr("mcpsite.frame.bundles.FOLDERS", (tmp_path, *FOLDERS))
    assert "mcp_app/keys.js" in recorded
    assert not are_current()


@pytest.mark.parametrize("name", ["first page", "list", "tool form", "session"])
def test_page_is_small_with_an_empty_cache(name: str, addresses: dict[str, str], visit: Visit) -> None:
    visitor = visit()
    sent = came(visitor, addresses[name])
    assert sum(sent.values()) <= MOST_SENT, sent
    fonts = {path: size for path, size in sent.items() if Path(path).suffix == ".woff2"}
    assert fonts
    assert sum(fonts.values()) <= MOST_OF_FONTS, fonts
    assert not [path for path in sent if "/whole/" in path]
    assert visitor.page.locator("html.mcp-all-icons").count() == 0
    assert visitor.trouble == []


def test_page_of_another_app_gets_charts_and_all_icons(visit: Visit) -> None:
    chart = '{"labels": ["a", "b"], "datasets": [{"label": "x", "data": [1, 2]}]}'

    def with_more(route: Route) -> None:
        answer = route.fetch()
        more = (
            f"<canvas class='chart' data-type='bar' data-value='{chart}'></canvas>"
            "<span class='material-symbols-outlined' id='rocket'>rocket_launch</span>"
        )
        route.fulfill(response=answer, body=answer.text().replace("</body>", f"{more}</body>", 1))

    visitor = visit()
    visitor.page.route("**/admin/password_change/", with_more)
    page = visitor.goto("/admin/password_change/")
    assert page.evaluate("Chart.getChart(document.querySelector('canvas.chart')).data.labels") == ["a", "b"]
    expect(page.locator("html.mcp-all-icons")).to_have_count(1)
    page.wait_for_function("document.getElementById('rocket').getBoundingClientRect().width < 30")
    assert visitor.trouble == []


def test_page_of_another_app_gets_the_script_for_its_attributes(visit: Visit) -> None:
    def with_more(route: Route) -> None:
        answer = route.fetch()
        more = '<p id="more" hx-get="/healthz" hx-trigger="load"></p>'
        route.fulfill(response=answer, body=answer.text().replace("</body>", f"{more}</body>", 1))

    visitor = visit()
    visitor.page.route("**/admin/password_change/", with_more)
    page = visitor.goto("/admin/password_change/")
    expect(page.locator("#more")).not_to_be_empty()
    assert visitor.trouble == []


def test_unchanged_files_are_not_sent_again(visit: Visit, base: str) -> None:
    ask = visit().page.request
    style = f"{base}/static/unfold/css/styles.css"
    first = ask.get(style)
    assert first.headers["content-encoding"] == "gzip"
    again = ask.get(style, headers={"If-None-Match": first.headers["etag"]})
    assert again.status == 304
    part = ask.get(style, headers={"Range": "bytes=0-99"})
    assert part.status == 206
    assert "content-encoding" not in part.headers
    assert len(part.body()) == 100
