"""Routing headers with a legacy session: compared if present, required in strict mode only."""

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
def test_mismatch_is_rejected_and_missing_header_only_in_strict_mode(
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
def test_strict_mode_requires_method_header_and_name_only_where_it_applies() -> None:
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
def test_param_headers_are_compared_with_annotated_arguments(
    fields: dict[bytes, bytes], lenient: bool, strict: bool
) -> None:
    for mode, fine in ((False, lenient), (True, strict)):
        if fine:
            interim_headers.check_params(fields, CALL, SCHEMA, strict=mode)
            continue
        with pytest.raises(Refused):
            interim_headers.check_params(fields, CALL, SCHEMA, strict=mode)


def test_invalid_annotation_is_ignored() -> None:
    schema = {"type": "object", "properties": {"region": {"type": "array", "x-mcp-header": "Region"}}}
    interim_headers.check_params({b"mcp-param-region": b"us"}, CALL, schema, strict=True)


def test_mismatch_error_is_short_and_single_line() -> None:
    with pytest.raises(Refused) as refused:
        interim_headers.check({b"mcp-method": b"x"}, Request(1, "a\nb" + "c" * 500, {}), strict=False)
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 250
