"""Routing headers beside a legacy session: compared where they are, asked for in strict mode only."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.errors import Refused
from mcp_app.protocol.http import interim_headers
from mcp_app.protocol.messages.jsonrpc import Notification, Request

CALL = Request(7, "tools/call", {"name": "t", "arguments": {"region": "eu", "deep": {"n": 5}}})
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
    },
}


@pytest.mark.requirement("HDR-12", "DLG-002-03")
@pytest.mark.parametrize(
    ("fields", "lenient", "strict"),
    [
        ({}, True, False),
        ({b"mcp-method": b"tools/call"}, True, False),
        ({b"mcp-method": b"tools/call", b"mcp-name": b" t\t"}, True, True),
        ({b"mcp-method": b"tools/call", b"mcp-name": b"T"}, False, False),
        ({b"mcp-method": b"tools/Call", b"mcp-name": b"t"}, False, False),
        ({b"mcp-method": "tools/cäll".encode(), b"mcp-name": b"t"}, False, False),
    ],
)
def test_what_differs_is_refused_and_what_is_missing_only_in_strict_mode(
    fields: dict[bytes, bytes], lenient: bool, strict: bool
) -> None:
    for mode, fine in ((False, lenient), (True, strict)):
        if fine:
            interim_headers.check(fields, CALL, strict=mode)
            continue
        with pytest.raises(Refused) as refused:
            interim_headers.check(fields, CALL, strict=mode)
        assert (refused.value.code, refused.value.http_status, refused.value.request_id) == (-32001, 400, 7)


@pytest.mark.requirement("DLG-002-03")
def test_notifications_need_the_method_in_strict_mode_and_methods_without_a_name_no_name() -> None:
    told = Notification("notifications/initialized", {})
    interim_headers.check({}, told, strict=False)
    interim_headers.check({b"mcp-method": b"notifications/initialized"}, told, strict=True)
    with pytest.raises(Refused):
        interim_headers.check({}, told, strict=True)
    interim_headers.check({b"mcp-method": b"tools/list"}, Request(1, "tools/list", {}), strict=True)


@pytest.mark.requirement("DLG-002-07", "DLG-002-08")
@pytest.mark.parametrize(
    ("fields", "lenient", "strict"),
    [
        ({}, True, False),
        ({b"mcp-param-region": b"eu"}, True, False),
        ({b"mcp-param-region": b"eu", b"mcp-param-n": b"5"}, True, True),
        ({b"mcp-param-region": b"=?base64?ZXU=?=", b"mcp-param-n": b"5.0"}, True, True),
        ({b"mcp-param-region": b"us", b"mcp-param-n": b"5"}, False, False),
        ({b"mcp-param-region": b"eu", b"mcp-param-n": b"5e0"}, False, False),
    ],
)
def test_arguments_are_compared_at_the_place_of_their_annotation(
    fields: dict[bytes, bytes], lenient: bool, strict: bool
) -> None:
    for mode, fine in ((False, lenient), (True, strict)):
        if fine:
            interim_headers.check_params(fields, CALL, SCHEMA, strict=mode)
            continue
        with pytest.raises(Refused):
            interim_headers.check_params(fields, CALL, SCHEMA, strict=mode)


def test_an_annotation_that_means_nothing_is_passed_over() -> None:
    schema = {"type": "object", "properties": {"region": {"type": "array", "x-mcp-header": "Region"}}}
    interim_headers.check_params({b"mcp-param-region": b"us"}, CALL, schema, strict=True)


def test_an_error_shows_no_line_break_and_no_long_value() -> None:
    with pytest.raises(Refused) as refused:
        interim_headers.check({b"mcp-method": b"x"}, Request(1, "a\nb" + "c" * 500, {}), strict=False)
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 250
