"""Rows of a model as tools: listed fields can be read, filtered and sorted, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.db import connections
from django.db.backends.signals import connection_created

from mcp_app import expose
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.testing import Client, RequestError, call_tool
from tests.integration.exposing import hostile
from tests.integration.exposing.conftest import add_orders
from tests.integration.exposing.shop import Customer, Order

pytestmark = pytest.mark.postgres

FIELDS = (
    "id",
    "number",
    "total",
    "status",
    "due",
    "placed",
    "weight",
    "rank",
    "gift",
    "extra",
    "customer__name",
)
FILTERS = (
    "status",
    "status__in",
    "total__gte",
    "total__in",
    "due__lt",
    "due__isnull",
    "placed",
    "placed__gte",
    "weight__gt",
    "rank",
    "rank__in",
    "gift",
    "number__startswith",
    "number__icontains",
    "customer",
    "customer__name",
)
ORDER = ("number", "-due", "placed", "weight", "rank", "total", "gift", "customer__name", "id")
READ = {"total": float, "placed": datetime.fromisoformat}
MAY = {"permissions": {"exposed_shop.view_order"}}


def _exposed(**options: Any) -> None:
    chosen: dict[str, Any] = {"fields": FIELDS, "filters": FILTERS, "order": ORDER, **options}
    expose.model(Order, prefix="orders", **chosen)


def _list(**arguments: Any) -> dict[str, Any]:
    result = call_tool("orders_list", arguments, **MAY)
    assert not result.get("isError"), result["content"]
    found: dict[str, Any] = result["structuredContent"]
    return found


def _refusal(name: str = "orders_list", **arguments: Any) -> str:
    result = call_tool(name, arguments, **MAY)
    assert result["isError"]
    text: str = result["content"][0]["text"]
    assert "incident" not in text
    return text


def _walk(**arguments: Any) -> list[dict[str, Any]]:
    """Return the rows of all pages."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = _list(**arguments, **cursor)
        found += page["rows"]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


@contextmanager
def _statements() -> Iterator[list[str]]:
    """Record the SQL statements of tool threads."""
    seen: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    def watch(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(note)

    connection_created.connect(watch)
    try:
        yield seen
    finally:
        connection_created.disconnect(watch)
        for connection in connections.all():
            if note in connection.execute_wrappers:
                connection.execute_wrappers.remove(note)


def test_page_has_the_listed_fields_and_a_cursor(shop: dict[str, Any]) -> None:
    _exposed()
    page = _list(limit=5)
    assert [row["number"] for row in page["rows"]] == ["A0000", "A0001", "A0002", "A0003", "A0004"]
    assert set(page["rows"][0]) == set(FIELDS)
    assert page["rows"][1] == {
        "id": 2,
        "number": "A0001",
        "total": "1.75",
        "status": "paid",
        "due": "2026-01-02",
        "placed": "2026-01-01T12:00:00.000001Z" if settings.USE_TZ else "2026-01-01T13:00:00.000001",
        "weight": pytest.approx(1 / 3),
        "rank": 1,
        "gift": False,
        "extra": {"words": [1]},
        "customer__name": "Customer of writer",
    }
    assert _list(limit=5, cursor=page["next"])["rows"][0]["number"] == "A0005"
    assert _list(limit=12)["next"] is None


@pytest.mark.parametrize("order", [sign + name.removeprefix("-") for name in ORDER for sign in ("", "-")])
def test_pages_have_every_row_once_in_any_order(shop: dict[str, Any], order: str) -> None:
    _exposed()
    rows = _walk(order=order, limit=4)
    assert sorted(row["id"] for row in rows) == list(range(1, 13))
    name = order.removeprefix("-")
    values = [row[name] for row in rows if row[name] is not None]
    typed = [READ.get(name, str)(value) if isinstance(value, str) else value for value in values]
    assert typed == sorted(typed, reverse=order.startswith("-"))
    assert all(row[name] is None for row in rows[len(values) :])


def test_row_added_between_pages_does_not_shift_others(shop: dict[str, Any]) -> None:
    _exposed()
    page = _list(limit=6)
    Order.objects.create(customer_id=1, number="A00005")
    rest = _list(limit=20, cursor=page["next"])["rows"]
    assert [row["number"] for row in rest] == [f"A{number:04}" for number in range(6, 12)]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({"status": "paid"}, {1, 4, 7, 10}),
        ({"status__in": ["paid", "lost"], "rank__in": [2]}, {2, 5, 8, 11}),
        ({"status__in": []}, set()),
        ({"total__gte": 7.5}, {5, 10, 11}),
        ({"total__gte": "7.50"}, {5, 10, 11}),
        ({"due__isnull": True}, {0, 4, 8}),
        ({"due__lt": "2026-01-02"}, {5, 10}),
        ({"placed__gte": "2026-01-01T13:00:00.000002+01:00"}, {2, 8, 11}),
        ({"number__startswith": "A000", "number__icontains": "a0009"}, {9}),
        ({"customer": 1, "rank": 0}, {0, 6}),
        ({"customer__name": "Customer of writer", "gift": False, "rank": 0}, {3, 9}),
    ],
)
def test_filters_select_rows(shop: dict[str, Any], filters: dict[str, Any], numbers: set[int]) -> None:
    _exposed()
    assert {int(row["number"][1:]) for row in _walk(**filters, limit=3)} == numbers


def test_one_row_is_read_by_its_key(shop: dict[str, Any]) -> None:
    _exposed()
    got = call_tool("orders_get", {"pk": 3}, **MAY)["structuredContent"]
    assert (got["number"], set(got)) == ("A0002", set(FIELDS))
    assert _refusal("orders_get", pk=99) == "There is no order with the key 99."


@pytest.mark.requirement("INT-43")
def test_statements_select_only_listed_columns(shop: dict[str, Any]) -> None:
    expose.model(Order, prefix="orders", fields=["number"], filters=["status"], order=["number"])
    with _statements() as seen:
        first = _list(status="open", limit=2)
        _list(status="open", limit=2, cursor=first["next"])
        call_tool("orders_get", {"pk": 1}, **MAY)
    asked = [sql for sql in seen if LABELLED in sql]
    assert len(asked) == 3
    columns = {name for sql in asked for name in re.findall(r'"exposed_shop_order"\."(\w+)"', sql)}
    assert columns == {"id", "number", "status"}


LABELLED = "exposed_shop_order"


@pytest.mark.requirement("INT-45")
def test_page_takes_one_query_for_any_number_of_rows(shop: dict[str, Any]) -> None:
    _exposed()
    add_orders(100, shop, start=100)
    counts = []
    for limit in (1, 100):
        with _statements() as seen:
            assert len(_list(limit=limit)["rows"]) == limit
        counts.append(len([sql for sql in seen if LABELLED in sql]))
    assert counts == [1, 1]
    assert "limit: expected a value of at most 100" in _refusal(limit=101)


@pytest.mark.requirement("INT-44")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"customer__owner__password__startswith": "md5"}, "expected no such argument"),
        ({"cost__gte": 1}, "expected no such argument"),
        ({"status__regex": "."}, "expected no such argument"),
        ({"status": "stolen"}, "status: expected one of 'open', 'paid', 'lost'"),
        ({"order": "cost"}, "order: expected one of 'number'"),
        ({"order": "customer__owner__password"}, "order: expected one of"),
        ({"due__lt": "2026-02-30"}, "due__lt: “2026-02-30” value has the correct format"),
        ({"due__lt": "soon"}, "due__lt: “soon” value has an invalid date format"),
        ({"placed": "9999-12-31T23:59:59-14:00"}, "placed: '9999-12-31T23:59:59-14:00' is no value"),
        ({"total__gte": 1e300}, "total__gte: Ensure that there are no more than 8 digits"),
        ({"total__gte": "NaN"}, "total__gte: expected"),
        ({"rank": 1e30}, "rank: 1e+30 is no value of this field (it has more than 64 bits)"),
        ({"number__startswith": "A\x00"}, "cannot hold the character NUL"),
        ({"rank__in": [1] * 101}, "rank__in: expected"),
    ],
)
def test_invalid_argument_is_refused_with_the_reason(
    shop: dict[str, Any], arguments: dict[str, Any], words: str
) -> None:
    _exposed()
    assert words in _refusal(**arguments)


def test_cursor_is_valid_for_its_own_list_only(shop: dict[str, Any]) -> None:
    _exposed()
    cursor = _list(limit=2, status="open")["next"]
    forged = signing.dumps(["x", "A0001", 1], salt="mcp_app.catalogue.exposure.models.pages")
    wrong = [
        {"cursor": "nonsense"},
        {"cursor": ":::"},
        {"cursor": cursor[:-1] + "_"},
        {"cursor": forged},
        {"cursor": cursor},
        {"cursor": cursor, "status": "paid"},
        {"cursor": cursor, "status": "open", "order": "-number"},
    ]
    for arguments in wrong:
        assert "leave cursor out to begin anew" in _refusal(**arguments)
    assert _list(limit=2, status="open", cursor=cursor)["rows"]


def test_model_tools_require_the_view_permission(shop: dict[str, Any]) -> None:
    _exposed()
    assert call_tool("orders_list", user=shop["reader"])["structuredContent"]["rows"]
    with pytest.raises(RequestError, match="Unknown tool"):
        call_tool("orders_list")
    with registry.isolated():
        _exposed(permission="")
        assert call_tool("orders_list")["structuredContent"]["rows"]


def test_rows_are_limited_to_the_queryset_of_the_caller(shop: dict[str, Any]) -> None:
    def own(context: Any) -> Any:
        return Order.objects.filter(customer__owner=context.user)

    _exposed(queryset=own)
    listed = call_tool("orders_list", user=shop["reader"])["structuredContent"]["rows"]
    assert {row["customer__name"] for row in listed} == {"Customer of reader"}
    assert call_tool("orders_get", {"pk": 2}, user=shop["reader"])["isError"]
    assert not call_tool("orders_get", {"pk": 1}, user=shop["reader"]).get("isError")


@pytest.mark.requirement("INT-43")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fields": ["nummer"]}, "Order has no 'nummer'. Did you mean 'number'?"),
        ({"fields": []}, "fields is empty"),
        ({"fields": "number"}, "got the string 'number'"),
        ({"fields": ["number__name"]}, "nothing is below 'number'"),
        ({"fields": ["customer__api_key"]}, "is named like a secret"),
        ({"fields": ["customer__owner__password"]}, "is named like a secret"),
        ({"filters": ["customer__api_key__startswith"]}, "is named like a secret"),
        ({"filters": ["status__regex"]}, "'regex' is no lookup of it: exact, in, isnull, iexact"),
        ({"filters": ["gift__contains"]}, "'contains' is no lookup of it: exact, in, isnull."),
        ({"filters": ["extra__words"]}, "'words' is no lookup of it: isnull"),
        ({"filters": {"due": ["gte", "near"]}}, "'near' is no lookup of it: exact, in, isnull, gt"),
        ({"order": ["cost"]}, "add it to fields"),
        ({"order": ["extra"]}, "cannot be compared"),
        ({"limit": 1001}, "limit is 1 to 1000"),
        ({"operations": ["delete"]}, "operations has no 'delete'"),
    ],
)
def test_invalid_model_options_are_refused_at_registration(options: dict[str, Any], words: str) -> None:
    with registry.isolated():
        with pytest.raises(DefinitionError, match=r"shop\.Order") as refused:
            _exposed(**options)
        assert words in str(refused.value)
        assert not registry.tools


def test_multi_valued_fields_and_non_models_are_refused() -> None:
    with registry.isolated():
        with pytest.raises(DefinitionError, match="'groups' has many values"):
            expose.model(User, fields=["groups"])
        with pytest.raises(DefinitionError, match="is no model"):
            expose.model(dict, fields=["a"])
        with pytest.raises(TypeError, match="unknown option 'read_only'"):
            expose.model(User, fields=["id"], read_only=False)  # type: ignore[call-arg]


def test_filters_may_be_grouped_by_field(shop: dict[str, Any]) -> None:
    _exposed(filters={"status": ["exact", "in"], "due": ["gte"]})
    properties = registry.tools["orders_list"].wire["inputSchema"]["properties"]
    assert list(properties) == ["status", "status__in", "due__gte", "order", "limit", "cursor"]


def test_sensitive_field_is_exposed_explicitly(shop: dict[str, Any]) -> None:
    expose.model(Customer, fields=["api_key"], sensitive=True, permission="")
    assert call_tool("customer_list")["structuredContent"]["rows"][0] == {"api_key": "customer-secret"}


@pytest.mark.requirement("INT-43", "INT-44")
async def test_hostile_arguments_reach_no_hidden_data_or_failure(
    shop: dict[str, Any],
) -> None:
    def open_ones(context: Any) -> Any:
        return Order.objects.exclude(status="lost")

    _exposed(queryset=open_ones)
    tools = {name: tool.wire["inputSchema"] for name, tool in registry.tools.items()}
    answered = 0
    async with Client(**MAY) as client:
        for name, arguments in hostile.calls(tools, 300):
            result = await client.call_tool(name, arguments)
            text = json.dumps(result)
            answered += not result.get("isError")
            secrets = ("incident", "cannot be sent", "7.77", "customer-secret", "md5$")
            assert not any(word in text for word in secrets), (name, arguments)
            assert "lost" not in json.dumps(result.get("structuredContent")), (name, arguments)
    assert answered > 60
