"""The table is whole: each way in has a row, each row is a way in, each tick is what the roles hold."""

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


def test_no_way_stands_there_twice() -> None:
    assert [way for way, count in Counter(map(str, ways())).items() if count > 1] == []


def test_every_address_of_django_has_a_row_and_every_row_an_address() -> None:
    assert set(pages()) == PAGES


def test_every_method_of_every_route_of_the_api_has_a_row_and_every_row_a_route() -> None:
    found = {(way.method, way.path) for way in WAYS if way.path.startswith("/api/")}
    nowhere = {("POST", "/api/<any>"), ("PATCH", "/api/<any>"), ("DELETE", "/api/<any>")}
    assert set(routes()) - nowhere == found


def test_every_address_that_is_answered_before_django_has_a_row_and_every_row_such_an_address() -> None:
    told = {way.path for way in ways() if way.method != "WS"}
    assert told == PAGES | served() | {path for _, path in routes()}


def test_every_word_to_the_socket_has_a_row_and_every_row_is_understood() -> None:
    told = {way.variant for way in ways() if way.method == "WS"}
    assert {way.path for way in ways() if way.method == "WS"} == {SOCKET}
    assert told == said_to_the_socket() | {""}


@pytest.mark.django_db
def test_every_action_of_a_list_has_a_row_and_every_row_an_action(asking: AskingOf) -> None:
    request = RequestFactory().get("/admin/")
    request.user = asking("superuser").user
    told = {f"{way.path} {way.variant}" for way in WAYS if way.variant.startswith("action=")}
    assert set(actions(request)) == told


@pytest.mark.django_db
def test_an_address_without_a_row_for_get_takes_none(asking: AskingOf, requests: Requests) -> None:
    root = asking("superuser")
    for path in PAGES:
        rows = [way for way in WAYS if way.path == path]
        if all(way.method != "GET" for way in rows):
            address = requests.of(rows[0]).address
            assert Request(address).send(root.client(), "GET").status_code == 405, path


def test_the_description_of_the_api_names_the_permissions_of_the_table() -> None:
    for pattern in urlpatterns:
        view: Any = pattern.callback
        for method, action in (getattr(view, "actions", None) or {}).items():
            if method == "head":  # The framework adds it once somebody has asked for the page.
                continue
            path = NAMED.sub("<id>", f"/api/{pattern.pattern}")
            [way] = [
                way for way in ways() if (way.method, way.path, way.variant) == (method.upper(), path, "")
            ]
            need = view.cls.needs[action]
            named = frozenset(f"mcp_app.{name}" for name in need.names)
            told = {frozenset({name}) for name in named} if need.every else {named}
            assert told == {widened(clause) for clause in way.clauses}, str(way)


def test_every_row_has_the_ticks_of_the_roles_that_hold_what_it_needs() -> None:
    for way in ways():
        assert {role for role in COLUMNS if way.is_open_to(PEOPLE[role])} == way.roles, str(way)
        assert way.level in LEVELS or way.clauses, str(way)


@pytest.mark.django_db
def test_every_permission_that_is_named_exists(db: Any) -> None:
    named = {name for way in ways() for clause in way.clauses for name in clause}
    assert named <= every_permission()
