from __future__ import annotations

import pytest

from mcp_app.protocol.errors import HeadersTooLarge, Refused
from mcp_app.protocol.http import header_values
from mcp_app.protocol.http.headers import (
    MAX_BYTES,
    MAX_FIELDS,
    accepts_both,
    accepts_sse,
    collect,
    is_identity,
    is_json,
)


def test_fields_are_keyed_by_lower_case_name() -> None:
    assert collect([(b"Host", b"a"), (b"MCP-Session-Id", b"s")]) == {b"host": b"a", b"mcp-session-id": b"s"}


def test_repeatable_fields_are_joined() -> None:
    headers = [(b"accept", b"application/json"), (b"Accept", b"text/event-stream"), (b"host", b"a")]
    assert collect(headers)[b"accept"] == b"application/json, text/event-stream"


@pytest.mark.parametrize(
    "name",
    [
        b"host",
        b"origin",
        b"authorization",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"last-event-id",
        b"mcp-session-id",
    ],
)
@pytest.mark.parametrize("second", [b"x", b"y"])
def test_repeated_significant_field_is_rejected(name: bytes, second: bytes) -> None:
    with pytest.raises(Refused) as caught:
        collect([(name, b"x"), (name.upper(), second)])
    assert caught.value.http_status == 400
    assert name.decode() in caught.value.message


@pytest.mark.requirement("HDR-08")
@pytest.mark.parametrize("name", [b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"mcp-param-region"])
def test_repeated_routing_header_decodes_to_none(name: bytes) -> None:
    found = collect([(name, b"x"), (name.upper(), b"x")])
    assert header_values.decode(found[name]) is None


@pytest.mark.parametrize("code", [*range(9), *range(10, 32), 127])
def test_control_characters_in_value_are_rejected(code: int) -> None:
    with pytest.raises(Refused) as caught:
        collect([(b"x", b"a%cb" % code)])
    assert caught.value.http_status == 400


def test_tab_in_value_is_accepted() -> None:
    assert collect([(b"x", b"a\tb")]) == {b"x": b"a\tb"}


@pytest.mark.requirement("SEC-07")
def test_too_many_or_too_large_fields_are_rejected() -> None:
    fields = [(b"x-%d" % number, b"") for number in range(MAX_FIELDS)]
    assert len(collect(fields)) == MAX_FIELDS
    for headers in ([*fields, (b"y", b"")], [(b"x", b"a" * MAX_BYTES)], [(b"x", b"a")] * (MAX_FIELDS + 1)):
        with pytest.raises(HeadersTooLarge) as caught:
            collect(headers)
        assert caught.value.http_status == 431


@pytest.mark.requirement("T-POST-02", "DLG-004-10")
@pytest.mark.parametrize(
    ("accept", "both", "sse"),
    [
        (None, True, True),
        (b"application/json, text/event-stream", True, True),
        (b"text/event-stream,application/json", True, True),
        (b"Application/JSON; charset=utf-8 , TEXT/event-stream;q=0.1", True, True),
        (b"*/*", True, True),
        (b"application/*, text/*", True, True),
        (b"application/json, text/*;q=0.5", True, True),
        (b"application/json", False, False),
        (b"text/event-stream", False, True),
        (b"text/html", False, False),
        (b"text/html, */*;q=0.8", True, True),
        (b"", False, False),
        (b",", False, False),
        (b"application/jsonx, text/event-streams", False, False),
        (b"*/*, text/event-stream;q=0", False, False),
        (b"*/*;q=0.000", False, False),
        (b"application/json;q=0, text/event-stream", False, True),
        (b"*/*;q=0, application/json, text/event-stream", True, True),
        (b"application/json;q=, text/event-stream; q = 1", True, True),
    ],
)
def test_accept_header_follows_http(accept: bytes | None, both: bool, sse: bool) -> None:
    assert accepts_both(accept) is both
    assert accepts_sse(accept) is sse


@pytest.mark.requirement("T-POST-03")
@pytest.mark.parametrize(
    ("content_type", "fits"),
    [
        (b"application/json", True),
        (b"application/json; charset=UTF-8", True),
        (b" Application/JSON ;x=y", True),
        (None, False),
        (b"", False),
        (b"text/plain", False),
        (b"application/jsonp", False),
        (b"application/json, text/plain", False),
        (b"text/plain; a=application/json", False),
    ],
)
def test_only_json_content_type_is_accepted(content_type: bytes | None, fits: bool) -> None:
    assert is_json(content_type) is fits


@pytest.mark.parametrize(
    ("encoding", "fits"),
    [(None, True), (b"identity", True), (b"", True), (b"gzip", False), (b"identity, br", False)],
)
def test_compressed_encoding_is_detected(encoding: bytes | None, fits: bool) -> None:
    assert is_identity(encoding) is fits
