from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    ParseError,
    PayloadTooLarge,
)
from mcp_app.protocol.messages.jsonrpc import (
    Invalid,
    Limits,
    Notification,
    Request,
    Response,
    answered_id,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    parse,
)

DOCUMENTED = (ParseError, InvalidRequest, InvalidParams, PayloadTooLarge)


def request(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "ping", **members}


def with_params(text: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % text.encode()


@pytest.mark.requirement("RPC-02")
@pytest.mark.parametrize("request_id", [0, 1, -1, 2**53 - 1, -(2**53) + 1, "1", "", "ä"])
def test_request_id_keeps_its_json_type(request_id: str | int) -> None:
    message = parse(orjson.dumps(request(id=request_id)))
    assert message == Request(request_id, "ping", {})
    assert type(message.id) is type(request_id)
    assert json.loads(encode_result(request_id, {})) == {"jsonrpc": "2.0", "id": request_id, "result": {}}


@pytest.mark.requirement("RPC-10", "DLG-000-11")
def test_absent_and_null_params_equal_empty_object() -> None:
    assert parse(b'{"jsonrpc":"2.0","method":"n"}') == Notification("n", {})
    assert parse(b'{"jsonrpc":"2.0","method":"n","params":{}}') == Notification("n", {})
    assert parse(b'{"jsonrpc":"2.0","method":"n","params":null}') == Notification("n", {})


@pytest.mark.requirement("RPC-10")
@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"cursor": None}, {}),
        ({"name": "t", "arguments": None}, {"name": "t"}),
        ({"_meta": None, "task": None}, {}),
        ({"_meta": {"progressToken": None, "other": None}}, {"_meta": {"other": None}}),
        ({"_meta": {"progressToken": 0}}, {"_meta": {"progressToken": 0}}),
        ({"name": "t", "arguments": {"x": None}}, {"name": "t", "arguments": {"x": None}}),
    ],
)
def test_null_members_of_params_are_dropped(sent: dict[str, Any], read: dict[str, Any]) -> None:
    assert parse(orjson.dumps(request(params=sent))) == Request(1, "ping", read)


def test_null_result_or_error_is_ignored() -> None:
    error = {"code": 1, "message": "m"}
    both = {"jsonrpc": "2.0", "id": 1}
    assert parse(orjson.dumps({**both, "result": {}, "error": None})) == Response(1, {}, None)
    assert parse(orjson.dumps({**both, "result": None, "error": error})) == Response(1, None, error)


@pytest.mark.requirement("GEN-02")
def test_unknown_members_are_ignored() -> None:
    assert parse(orjson.dumps(request(x=1))) == Request(1, "ping", {})


@pytest.mark.requirement("GEN-03")
def test_non_bmp_text_is_preserved() -> None:
    text = "😀 é 世界 \u0000"
    parsed = parse(orjson.dumps(request(params={"text": text})))
    assert parsed == Request(1, "ping", {"text": text})


@pytest.mark.requirement("RPC-05")
def test_response_has_result_or_error() -> None:
    assert parse(b'{"jsonrpc":"2.0","id":"a","result":{"x":1}}') == Response("a", {"x": 1}, None)
    error = {"code": -1, "message": "no", "data": [1]}
    assert parse(orjson.dumps({"jsonrpc": "2.0", "id": 2, "error": error})) == Response(2, None, error)


@pytest.mark.requirement("T-POST-04", "GEN-03", "RPC-11")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{} x",
        b"\xff",
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"[1,]",
        b"{'a':1}",
        b"\x1f\x8b\x08\x00",
    ],
)
def test_invalid_json_is_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        parse(body)
    assert (caught.value.http_status, caught.value.request_id) == (400, None)


@pytest.mark.requirement("T-POST-05", "RPC-01", "RPC-02", "RPC-05", "RPC-11")
@pytest.mark.parametrize(
    ("node", "request_id"),
    [
        (1, None),
        ("ping", None),
        (None, None),
        ({}, None),
        ({"id": 1, "method": "ping"}, 1),
        (request(jsonrpc="1.0"), 1),
        (request(jsonrpc=2.0), 1),
        (request(method=1), 1),
        (request(method=None), 1),
        (request(id=None), None),
        (request(id=1.0), None),
        (request(id=1.5), None),
        (request(id=True), None),
        (request(id={}), None),
        (request(id=[]), None),
        (request(id=2**53), None),
        (request(id=-(2**53)), None),
        (request(params=1), 1),
        (request(params="x"), 1),
        (request(result={}), 1),
        (request(error={}), 1),
        ({"jsonrpc": "2.0", "id": 1}, 1),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, 1),
        ({"jsonrpc": "2.0", "id": 1, "result": []}, 1),
        ({"jsonrpc": "2.0", "id": 1, "result": None}, 1),
        ({"jsonrpc": "2.0", "id": 1, "error": None}, 1),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": ""}}, 1),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": True, "message": ""}}, 1),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}, 1),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": ""}}, None),
        ({"jsonrpc": "2.0", "result": {}}, None),
    ],
)
def test_json_without_message_shape_is_invalid_request(node: Any, request_id: int | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(orjson.dumps(node))
    assert (caught.value.http_status, caught.value.request_id) == (400, request_id)


@pytest.mark.requirement("RPC-10", "T-POST-05")
def test_positional_params_are_invalid_params() -> None:
    with pytest.raises(InvalidParams) as caught:
        parse(orjson.dumps(request(params=[1])))
    assert (caught.value.http_status, caught.value.request_id) == (400, 1)


@pytest.mark.requirement("RPC-11")
@pytest.mark.parametrize(
    "params",
    [
        '{"a":1,"a":2}',
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '{"a" :1, "a" : 2}',
        '{"a"\t:1,"a":2}',
        '{"a"\n:1,"a"\r:2}',
        '{"a":{"b":1},"a":2}',
        '{"x":[{"a":1,"a":2}]}',
        '{"url":"http://a:1/","a":1,"a":2}',
        '{"text":"\\":\\":","a":1,"a":2}',
    ],
)
def test_duplicate_key_is_parse_error_in_any_spelling(params: str) -> None:
    with pytest.raises(ParseError, match="same key twice"):
        parse(with_params(params))


@pytest.mark.parametrize(
    "params",
    [
        '{"url":"http://a:1/"}',
        '{"text":"a \\": b : c\\":"}',
        '{"a" : 1, "b"\t:\n2}',
        '{"a":{"a":{"a":":"}}}',
        '{"list":[{"a":1},{"a":1}]}',
    ],
)
def test_colons_in_text_are_not_duplicate_keys(params: str) -> None:
    parsed = parse(with_params(params))
    assert parsed == Request(1, "m", json.loads(params))


@pytest.mark.requirement("RPC-11")
@pytest.mark.parametrize(
    "number",
    [
        "18446744073709551616",
        "-9223372036854775809",
        "9" * 65,
        "9" * 5000,
        "0." + "1" * 64,
        "1e400",
        "-1e400",
        "0" * 63 + "1",
    ],
)
def test_unrepresentable_number_is_parse_error(number: str) -> None:
    with pytest.raises(ParseError):
        parse(with_params(f'{{"n":{number}}}'))


@pytest.mark.parametrize(
    "number",
    ["0", "-0", "1.5", "1e300", "18446744073709551615", "-9223372036854775808", "9.3e18", "0." + "1" * 62],
)
def test_representable_number_is_accepted(number: str) -> None:
    assert parse(with_params(f'{{"n":{number}}}')) == Request(1, "m", {"n": json.loads(number)})


def test_long_digits_in_text_are_accepted() -> None:
    digits = "1" * 100
    assert parse(with_params(f'{{"n":0.5,"t":"{digits}"}}')) == Request(1, "m", {"n": 0.5, "t": digits})


LIMITS = Limits(body_bytes=2000, depth=5, members=30, string_bytes=100, number_digits=10, batch=3)


@pytest.mark.requirement("T-POST-11")
@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ('{"a":[[[1]]]}', True),
        ('{"a":[[[]]]}', True),
        ('{"a":[[[[]]]]}', False),
        ('{"a":[[[{}]]]}', False),
        ('{"a":[1' + ",1" * 24 + "]}", True),
        ('{"a":[1' + ",1" * 25 + "]}", False),
        ('{"a":"%s"}' % ("x" * 100), True),
        ('{"a":"%s"}' % ("x" * 101), False),
        ('{"a":"%s"}' % ("é" * 51), False),
        ('{"a":["%s"]}' % ("x" * 101), False),
        ('{"%s":1}' % ("x" * 101), False),
        ('{"a":0.12345678}', True),
        ('{"a":0.123456789}', False),
    ],
)
def test_structure_limits_are_exact(params: str, fits: bool) -> None:
    body = with_params(params)
    if fits:
        assert parse(body, LIMITS) == Request(1, "m", json.loads(params))
        return
    with pytest.raises(ParseError):
        parse(body, LIMITS)


@pytest.mark.requirement("T-POST-11")
def test_body_limit_is_exact() -> None:
    body = orjson.dumps(request()).ljust(LIMITS.body_bytes)
    assert parse(body, LIMITS) == Request(1, "ping", {})
    with pytest.raises(PayloadTooLarge):
        parse(body + b" ", LIMITS)


@pytest.mark.requirement("RPC-11")
@pytest.mark.parametrize("depth", [65, 1000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_parse_error(depth: int, opening: str, closing: str) -> None:
    with pytest.raises(ParseError):
        parse((opening * depth + "1" + closing * depth).encode())


@pytest.mark.requirement("RPC-11")
@pytest.mark.parametrize(
    "params",
    [
        '{"a":1,"a":1}',
        '{"a":{"b":[],"b":[]}}',
        '{"n":18446744073709551616}',
        '{"n":0.%s}' % ("1" * 70),
        '{"a":' + "[" * 63 + "1" + "]" * 63 + "}",
    ],
)
@pytest.mark.parametrize("blank", [b"", b" "])
def test_rejection_is_independent_of_whitespace(params: str, blank: bytes) -> None:
    with pytest.raises(ParseError):
        parse(with_params(params) + blank)


@pytest.mark.requirement("BATCH-01", "BATCH-06")
def test_batch_contains_invalid_members_in_place() -> None:
    batch = parse(orjson.dumps([request(id=1), {"jsonrpc": "2.0", "method": "n"}, request(id="x", params=3)]))
    assert isinstance(batch, list)
    assert batch[:2] == [Request(1, "ping", {}), Notification("n", {})]
    bad = batch[2]
    assert isinstance(bad, Invalid)
    assert (bad.error.code, bad.id) == (-32600, "x")


@pytest.mark.requirement("BATCH-06")
@pytest.mark.parametrize("length", [0, 4])
def test_empty_or_oversized_batch_is_invalid_request(length: int) -> None:
    with pytest.raises(InvalidRequest):
        parse(orjson.dumps([{"jsonrpc": "2.0", "method": "n"}] * length), LIMITS)


@pytest.mark.requirement("RPC-07")
def test_error_without_request_id_omits_id() -> None:
    expected = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "The body is not valid JSON."}}
    assert json.loads(encode_error(ParseError())) == expected


@pytest.mark.parametrize("request_id", [0, 7, "", "a"])
def test_error_echoes_given_or_carried_request_id(request_id: str | int) -> None:
    given_id = json.loads(encode_error(InvalidParams(), request_id))
    carried = json.loads(encode_error(InvalidParams(request_id=request_id)))
    assert given_id == carried
    assert given_id["id"] == request_id


@pytest.mark.requirement("RPC-01")
def test_encoded_messages_parse_back() -> None:
    assert parse(encode_request("s1", "roots/list", {"a": 1})) == Request("s1", "roots/list", {"a": 1})
    assert parse(encode_notification("n", {"a": 1})) == Notification("n", {"a": 1})
    assert json.loads(encode_notification("n")) == {"jsonrpc": "2.0", "method": "n"}
    assert parse(encode_result(1, {"text": "a\nb"})) == Response(1, {"text": "a\nb"}, None)


def test_encoded_result_is_embedded_unchanged() -> None:
    assert encode_result("a", b'{"tools": []}') == b'{"jsonrpc":"2.0","id":"a","result":{"tools": []}}'


def test_encoded_message_has_no_line_break() -> None:
    assert b"\n" not in encode_result(1, {"text": "a\nb\r\u2028"})


def test_integers_beyond_64_bits_are_encoded() -> None:
    assert encode({"n": 2**70, "t": "é"}) == b'{"n":%d,"t":"\xc3\xa9"}' % 2**70


@pytest.mark.parametrize("value", [object(), "\ud800", [2**70, float("nan")], {1: 2**70, "x": {1}}])
def test_unencodable_value_is_internal_error_without_details(value: Any) -> None:
    with pytest.raises(InternalError) as caught:
        encode_result(1, {"value": value})
    assert caught.value.message == "The answer cannot be written as JSON."


def _parses_or_is_refused(body: bytes) -> None:
    try:
        found = parse(body)
    except DOCUMENTED:
        return
    if isinstance(found, list):
        assert found
        assert all(isinstance(item, Request | Notification | Response | Invalid) for item in found)
    else:
        assert isinstance(found, Request | Notification | Response)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_parse_or_raise_documented_error(body: bytes) -> None:
    _parses_or_is_refused(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text() | JSON,
        "method": st.text() | JSON,
        "params": st.dictionaries(st.text(), JSON, max_size=4) | JSON,
        "result": st.dictionaries(st.text(), JSON, max_size=4) | JSON,
        "error": st.fixed_dictionaries({"code": st.integers(), "message": st.text()}) | JSON,
    },
)


@given(NEARLY | st.lists(NEARLY, max_size=4))
def test_message_like_json_parses_or_raises_documented_error(node: Any) -> None:
    _parses_or_is_refused(json.dumps(node).encode())


SAFE_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


# Null members of params are dropped: test_null_members_of_params_are_dropped.
@given(
    st.dictionaries(st.text(max_size=8), SAFE_JSON.filter(lambda value: value is not None), max_size=5),
    st.sampled_from([None, 1, "\t"]),
)
def test_valid_params_are_unchanged_by_whitespace(params: dict[str, Any], indent: Any) -> None:
    body = json.dumps(request(params=params), indent=indent, ensure_ascii=False).encode()
    assert parse(body) == Request(1, "ping", params)


@pytest.mark.parametrize("request_id", [1, -7, 2**70, "a", 'a"b\\c', "ü\n", ""])
def test_answered_id_is_read_without_parsing(request_id: str | int) -> None:
    for encoded in (
        encode_result(request_id, {"id": "other"}),
        encode_error(InvalidParams("x"), request_id),
    ):
        assert answered_id(encoded) == request_id
    assert answered_id(encode_error(InvalidParams("x"))) is None
