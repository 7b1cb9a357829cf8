"""Checks of the public address: responses, accepted requests, and event stream delivery."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from mcp_app.doctor import Installation, Level, examine, web
from mcp_app.doctor.conversation import Arrivals
from mcp_app.doctor.examination import Area, Check
from tests.unit.doctor.sites import Site, serve


@pytest.mark.parametrize(
    ("check", "planted", "level"),
    [
        (web.alive, {}, Level.OK),
        (web.alive, {"health": (502, {})}, Level.ERROR),
        (web.alive, {"health": (301, {})}, Level.ERROR),
        (web.alive, {"health": (200, "somebody else's page")}, Level.ERROR),
        (web.ready, {}, Level.OK),
        (web.ready, {"readiness": (503, {"missing": ["worker"]})}, Level.ERROR),
        (web.ready, {"readiness": (502, [])}, Level.ERROR),
        (web.hosts, {}, Level.OK),
        (web.hosts, {"hangs_up_on_strangers": True}, Level.OK),
        (web.hosts, {"refuses_own_host": True}, Level.ERROR),
        (web.hosts, {"lets_hosts_in": True}, Level.ERROR),
        (web.origins, {}, Level.OK),
        (web.origins, {"refuses_own_origin": True}, Level.ERROR),
        (web.origins, {"lets_origins_in": True}, Level.ERROR),
        (web.event_stream, {}, Level.OK),
        (web.event_stream, {"held": True}, Level.ERROR),
        (web.event_stream, {"greets": 401}, Level.ERROR),
    ],
)
def test_web_finding_has_level_and_remedy(
    monkeypatch: pytest.MonkeyPatch, check: Check, planted: dict[str, Any], level: Level
) -> None:
    monkeypatch.setattr(web, "REQUEST_SECONDS", 0.5 if "held" in planted else 5.0)
    with serve(replace(Site(), **planted)) as site:
        (found,) = check(Installation(url=site.url))
    assert (found.level, bool(found.remedy)) == (level, level == Level.ERROR)


@pytest.mark.parametrize("held", [False, True])
def test_probe_session_is_deleted_after_success_and_failure(
    monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    monkeypatch.setattr(web, "REQUEST_SECONDS", 0.5)
    with serve(Site(held=held)) as site:
        list(web.event_stream(Installation(url=site.url)))
    assert site.seen == ["initialize", "notifications/initialized", "GET", "DELETE"]


def test_event_stream_check_without_required_key_is_skipped() -> None:
    with serve(Site()) as site, override_settings(MCP={"AUTH": "required"}):
        (found,) = web.event_stream(Installation(url=site.url))
    assert (found.level, "MCP_API_KEY" in found.remedy) == (Level.SKIPPED, True)
    assert site.seen == []


def test_missing_public_url_skips_area() -> None:
    (found,) = examine(Installation(), [Area("web", web.CHECKS, web.alive)])
    assert (found.level, "PUBLIC_URL" in found.remedy) == (Level.SKIPPED, True)


def test_unreachable_address_is_one_error_and_skips_rest() -> None:
    found = examine(Installation(url="http://127.0.0.1:1"), [Area("web", web.CHECKS, web.alive)])
    assert [finding.level for finding in found] == [Level.ERROR, Level.SKIPPED]


@pytest.mark.parametrize(
    ("arrivals", "level"),
    [
        (Arrivals(0.1, 2.1), Level.OK),
        (Arrivals(2.1, 2.1), Level.ERROR),
        (Arrivals(1.5, 3.5), Level.WARNING),
    ],
)
def test_buffered_events_are_reported(arrivals: Arrivals, level: Level) -> None:
    assert web.arrivals_finding(arrivals).level == level
