from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.errors import HeaderMismatch
from mcp_app.protocol.http import headers, routing_headers
from mcp_app.protocol.messages.envelope import VERSION

V = "2026-07-28"
CALL = {"name": "echo"}


def check(method: str, params: dict[str, Any], **headers: str | bytes | None) -> None:
    sent = {"mcp_protocol_version": V, "mcp_method": method, **headers}
    fields = {
        name.replace("_", "-").encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in sent.items()
        if value is not None
    }
    agree = routing_headers.agree(fields, method, {**params, "_meta": {VERSION: V}})
    try:
        routing_headers.check_values(fields)
        routing_headers.check(fields, V, method, params)
    except HeaderMismatch:
        assert not agree, "the short look let it pass"
        raise


@pytest.mark.parametrize(
    ("params", "more", "agree"),
    [
        ({"name": "echo", "_meta": {VERSION: V}}, {b"mcp-name": b"echo"}, True),
        ({"name": "\u00fc", "_meta": {VERSION: V}}, {b"mcp-name": "\u00fc".encode()}, False),
        ({"name": "\ud800", "_meta": {VERSION: V}}, {b"mcp-name": b"?"}, False),
        (
            {"name": "=?base64?b3RoZXI=?=", "_meta": {VERSION: V}},
            {b"mcp-name": b"=?base64?b3RoZXI=?="},
            False,
        ),
        ({"name": "n" * 300, "_meta": {VERSION: V}}, {b"mcp-name": b"n" * 300}, False),
        ({"name": None, "_meta": {VERSION: V}}, {}, False),
        ({"name": ["echo"], "_meta": {VERSION: V}}, {b"mcp-name": b"echo"}, False),
        ({"name": "echo", "_meta": {}}, {b"mcp-name": b"echo"}, False),
        ({"name": "echo"}, {b"mcp-name": b"echo"}, False),
    ],
)
def test_agree_accepts_only_plainly_equal_headers(
    params: dict[str, Any], more: dict[bytes, bytes], agree: bool
) -> None:
    fields = {b"mcp-protocol-version": V.encode(), b"mcp-method": b"tools/call", **more}
    assert routing_headers.agree(fields, "tools/call", params) is agree
    del fields[b"mcp-protocol-version"]
    assert not routing_headers.agree(fields, "tools/call", params)


@pytest.mark.requirement("HDR-03", "HDR-04", "HDR-05", "HDR-09")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", CALL, "echo"),
        ("prompts/get", {"name": "review"}, "review"),
        ("resources/read", {"uri": "doc://a"}, "doc://a"),
        ("resources/read", {"uri": "doc://ü"}, "=?base64?ZG9jOi8vw7w=?="),
        ("tools/call", {"name": "a b"}, "a b"),
        ("tools/call", {"name": "a b"}, "=?base64?YSBi?="),
        ("tasks/get", {"taskId": "t-1"}, "t-1"),
        ("tasks/update", {"taskId": "t-1"}, "t-1"),
        ("tasks/cancel", {"taskId": "t-1"}, "t-1"),
    ],
)
def test_name_header_must_equal_target_member(method: str, params: dict[str, Any], name: str) -> None:
    check(method, params, mcp_name=name)
    check(method, params, mcp_name=f" \t{name} ")
    for wrong in ("other", name.upper() + "X", "=?base64?b3RoZXI=?=", None):
        with pytest.raises(HeaderMismatch, match="Mcp-Name"):
            check(method, params, mcp_name=wrong)


@pytest.mark.requirement("HDR-05")
def test_methods_without_target_accept_any_name_header() -> None:
    check("tools/list", {}, mcp_name="anything")
    check("tools/list", {})


@pytest.mark.requirement("HDR-01", "HDR-02", "HDR-06")
@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"mcp_protocol_version": None}, "MCP-Protocol-Version is missing"),
        ({"mcp_protocol_version": "2025-11-25"}, "MCP-Protocol-Version is '2025-11-25'"),
        ({"mcp_method": None}, "Mcp-Method is missing"),
        ({"mcp_method": "tools/list"}, "Mcp-Method is 'tools/list', but the body says 'tools/call'"),
        ({"mcp_method": "TOOLS/CALL"}, "Mcp-Method"),
        # Only names may be encoded.
        ({"mcp_method": "=?base64?dG9vbHMvY2FsbA==?="}, "Mcp-Method"),
        ({"mcp_name": "=?base64?ZWNobw?="}, "Mcp-Name is not validly encoded"),
    ],
)
def test_mismatched_header_is_named_with_both_values(headers: dict[str, Any], word: str) -> None:
    with pytest.raises(HeaderMismatch, match=word.replace("?", r"\?")):
        check("tools/call", CALL, **{"mcp_name": "echo", **headers})


@pytest.mark.requirement("HDR-08", "HDR-10", "HDR-14")
@pytest.mark.parametrize("header", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_repeated_or_non_ascii_header_is_mismatch(header: str) -> None:
    twice = headers.collect([(header.encode(), b"echo"), (header.upper().encode(), b"echo")])
    for fields in (twice, {header.encode(): "ü".encode()}, {header.encode(): b"\xfc"}):
        with pytest.raises(HeaderMismatch, match="(?i)" + header):
            routing_headers.check_values(fields)


@pytest.mark.requirement("HDR-13")
def test_mismatch_message_is_short_and_single_line() -> None:
    with pytest.raises(HeaderMismatch) as caught:
        check("tools/call", {"name": "line\nbreak" + "x" * 5000}, mcp_name="y" * 5000)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 250


def test_target_of_wrong_type_is_left_to_params_validation() -> None:
    check("tools/call", {"name": 7}, mcp_name="7")
    check("tools/call", {}, mcp_name="echo")
    with pytest.raises(HeaderMismatch, match="Mcp-Name is missing"):
        check("tools/call", {})
