"""The table is complete: each way has a row, each row is a way, and each tick matches the roles."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.test import RequestFactory

from mcp_app.api.urls import urlpatterns
from tests.integration.roles.conftest import AskingOf
from tests.integration.roles.people import PEOPLE, every_permission
from tests.integration.roles.requests import Request, Requests
from tests.integration.roles.table import COLUMNS, LEVELS, ways, widened
from tests.integration.roles.test_pages_and_routes import WAYS
from tests.integration.roles.ways_there_are import (
    NAMED,
    SOCKET,
    actions,
    pages,
    routes,
    said_to_the_socket,
    served,
)

PAGES = {way.path for way in WAYS if not way.path.startswith("/api/")}


def test_no_way_is_listed_twice() -> None:
    assert [way for way, count in Counter(map(str, ways())).items() if count > 1] == []


def test_django_addresses_equal_the_rows() -> None:
    assert set(pages()) == PAGES


def test_api_routes_and_methods_equal_the_rows() -> None:
    found = {(way.method, way.path) for way in WAYS if way.path.startswith("/api/")}
    nowhere = {("POST", "/api/<any>"), ("PATCH", "/api/<any>"), ("DELETE", "/api/<any>")}
    assert set(routes()) - nowhere == found


def test_all_served_addresses_equal_the_rows() -> None:
    told = {way.path for way in ways() if way.method != "WS"}
    assert told == PAGES | served() | {path for _, path in routes()}


def test_socket_messages_equal_the_rows() -> None:
    told = {way.variant for way in ways() if way.method == "WS"}
    assert {way.path for way in ways() if way.method == "WS"} == {SOCKET}
    assert told == said_to_the_socket() | {""}


@pytest.mark.django_db
def test_list_actions_equal_the_rows(asking: AskingOf) -> None:
    request = RequestFactory().get("/admin/")
    request.user = asking("superuser").user
    told = {f"{way.path} {way.variant}" for way in WAYS if way.variant.startswith("action=")}
    assert set(actions(request)) == told


@pytest.mark.django_db
def test_address_without_a_get_row_returns_405(asking: AskingOf, requests: Requests) -> None:
    root = asking("superuser")
    for path in PAGES:
        rows = [way for way in WAYS if way.path == path]
        if all(way.method != "GET" for way in rows):
            address = requests.of(rows[0]).address
            assert Request(address).send(root.client(), "GET").status_code == 405, path


def test_api_views_require_the_permissions_of_the_table() -> None:
    for pattern in urlpatterns:
        view: Any = pattern.callback
        for method, action in (getattr(view, "actions", None) or {}).items():
            if method == "head":  # The framework adds it once the page was requested.
                continue
            path = NAMED.sub("<id>", f"/api/{pattern.pattern}")
            [way] = [
                way for way in ways() if (way.method, way.path, way.variant) == (method.upper(), path, "")
            ]
            need = view.cls.needs[action]
            named = frozenset(f"mcp_app.{name}" for name in need.names)
            told = {frozenset({name}) for name in named} if need.every else {named}
            assert told == {widened(clause) for clause in way.clauses}, str(way)


def test_ticks_match_the_permissions_of_the_roles() -> None:
    for way in ways():
        assert {role for role in COLUMNS if way.is_open_to(PEOPLE[role])} == way.roles, str(way)
        assert way.level in LEVELS or way.clauses, str(way)


@pytest.mark.django_db
def test_every_named_permission_exists(db: Any) -> None:
    named = {name for way in ways() for clause in way.clauses for name in clause}
    assert named <= every_permission()
