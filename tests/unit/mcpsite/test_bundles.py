"""Bundles on pages, and the sources that decide whether they are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from mcpsite.frame import bundles
from mcpsite.frame.middleware import BundlesMiddleware

SKINNED = """<head><link href="/static/unfold/css/styles.css" rel="stylesheet">
<link rel="stylesheet" href="/static/mcp_app/admin.css"><link rel="icon" href="/static/mcp_app/icon.svg">
<script src="/static/unfold/js/htmx/htmx.js"></script>
<script src="/static/mcp_app/anything.js#/find/"></script>
<script src="/static/unfold/js/alpine/alpine.js" defer></script><script src="/other.js"></script>
<script src="/static/mcp_app/zone.js#zone=UTC&amp;own=UTC"></script></head>"""
SKINNED_BUNDLED = """<head><link rel="stylesheet" href="/static/mcpsite/skin.css">
<link rel="icon" href="/static/mcp_app/icon.svg">
<script src="/static/mcpsite/skin.js" data-htmx="/static/unfold/js/htmx/htmx.js"\
 data-anything="/static/mcp_app/anything.js#/find/" data-zone="/static/mcp_app/zone.js#zone=UTC&amp;own=UTC"\
 defer></script>
<script src="/other.js"></script>
</head>"""
PLAIN = """<head><script src="/static/mcp_app/keys.js"></script>
<script src="/static/mcp_app/admin.js"></script>
<link rel="stylesheet" href="/static/mcp_app/admin.css"></head>"""
PLAIN_BUNDLED = """<head><script src="/static/mcpsite/own.js" defer></script>
<link rel="stylesheet" href="/static/mcp_app/admin.css"></head>"""
OWN_MARKER = "<p>/static/mcp_app/admin.js</p>"
SKIN_MARKERS = "<p>/static/unfold/css/styles.css /static/unfold/js/alpine/alpine.js</p>"
OTHER = '<head><script src="/static/mcp_app/copy.js" defer></script></head>'


def rewritten(page: str, kind: str = "text/html") -> str:
    middleware = BundlesMiddleware(lambda _: HttpResponse(page, content_type=kind))
    answer = middleware(RequestFactory().get("/"))
    return answer.content.decode()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (SKINNED, SKINNED_BUNDLED),
        (PLAIN, PLAIN_BUNDLED),
        (OTHER, OTHER),
        # A logged message can contain any text.
        (SKINNED + OWN_MARKER, SKINNED_BUNDLED + OWN_MARKER),
        (PLAIN + SKIN_MARKERS, PLAIN_BUNDLED + SKIN_MARKERS),
        (OTHER + OWN_MARKER, OTHER + OWN_MARKER),
    ],
    ids=["skin", "plain", "page without the marker", "skin, text", "plain, text", "without, text"],
)
def test_sources_of_a_page_become_one_bundle_of_each_kind(page: str, expected: str) -> None:
    assert rewritten(page).replace("\n", "") == expected.replace("\n", "")


@pytest.mark.parametrize("kind", ["text/html", "text/html; charset=unknown"])
def test_page_that_cannot_be_decoded_is_unchanged(kind: str) -> None:
    content = b"<p>\xe9\xff</p>"
    middleware = BundlesMiddleware(lambda _: HttpResponse(content, content_type=kind))
    answer = middleware(RequestFactory().get("/"))
    assert answer.content == content  # type: ignore[attr-defined]


def test_response_of_another_type_is_unchanged() -> None:
    assert rewritten(SKINNED, "text/plain") == SKINNED


@pytest.mark.parametrize(
    "recorded", ["none", "not JSON", "other hash", "missing source", "new source", "current"]
)
def test_bundles_are_used_only_with_their_recorded_sources(
    recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "mcp_app/keys.js"
    texts = {
        "not JSON": "{",
        "other hash": json.dumps({name: "0" * 64}),
        "missing source": json.dumps({name: bundles.digest(name), "mcp_app/gone.js": "0" * 64}),
        "new source": json.dumps({"mcp_app/admin.js": bundles.digest("mcp_app/admin.js")}),
        "current": json.dumps({name: bundles.digest(name)}),
    }
    if recorded in texts:
        (tmp_path / bundles.RECORD).write_text(texts[recorded])
    monkeypatch.setattr(bundles, "FOLDER", tmp_path)
    monkeypatch.setattr(bundles, "BUNDLES", (bundles.Bundle("mcpsite/own.js", name, (name,)),))
    assert bundles.are_current() is (recorded == "current")
