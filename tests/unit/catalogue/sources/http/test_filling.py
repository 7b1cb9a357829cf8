"""Arguments change nothing but their own places in a request (INT-02 to INT-04)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from django.http import QueryDict
from django.http.multipartparser import MultiPartParser

from mcp_app.catalogue.sources.http.filling import UnfitArgument, filled
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.egress import Request

ORIGIN: Final = "https://api.example.com"
ROUNDS: Final = 10_000
FORM: Final = "application/x-www-form-urlencoded"
WORDS: Final = (
    "..", ".", "/", "\\", "%2e", "%2E%2e", "%252e%252e", "%2f", "%5c", "%00", "?", "#", "&", "=", ";", ":",
    "//", "@", "http://", "\r\n", "\n", "\0", "\x7f", "'", '"', "{", "}", "${x}", "{{x}}", "$argument",
    "café", "\u202e", "\ud7ff", "😀", " ", "\t", "+", ",", "a", "0", "-1", "true", "null", "..;",
    "evil.example",
    '","admin":true,"x":"',
)  # fmt: skip


def plan(**values: Any) -> RequestPlan:
    return RequestPlan.read({"origin": ORIGIN, "method": "GET", "path": "/", **values})


def at(place: str, **more: Any) -> dict[str, Any]:
    return {"argument": "x", "in": place, "name": "x-field" if place == "header" else "x", **more}


def hostile(chance: random.Random) -> str:
    """Return a text made of parts that mean something to some parser."""
    parts = chance.choices(WORDS, k=chance.randint(1, 6))
    if chance.random() < 0.2:
        parts.append(chr(chance.choice([chance.randrange(0x20), chance.randrange(0x80, 0xD800)])))
    return "".join(parts)


def each_hostile(send: Callable[[str], Any]) -> int:
    """Call ``send`` with many hostile texts. Return how many were sent and not refused."""
    chance, sent = random.Random(38), 0
    for _ in range(ROUNDS):
        text = hostile(chance)
        try:
            send(text)
        except UnfitArgument:
            continue
        sent += 1
    return sent


@pytest.mark.requirement("INT-02")
def test_path_argument_changes_neither_origin_nor_segments() -> None:
    checked = plan(path="/v1/orders/{x}/items", parameters=[at("path")])

    def send(text: str) -> None:
        request = filled(checked, {"x": text})
        parts = urlsplit(request.url)
        assert (f"{parts.scheme}://{parts.netloc}", parts.query, parts.fragment) == (ORIGIN, "", "")
        segments = parts.path.split("/")
        assert (len(segments), segments[:3], segments[4]) == (5, ["", "v1", "orders"], "items")
        assert unquote(segments[3]) == text
        decoded = segments[3]
        for _ in range(8):
            decoded = unquote(decoded)
            assert not {".", ".."} & set(decoded.replace("\\", "/").replace(";", "/").split("/"))

    assert each_hostile(send) > ROUNDS / 10


@pytest.mark.parametrize("style", ["simple", "label", "matrix"])
@pytest.mark.requirement("INT-02")
def test_styled_path_argument_keeps_the_number_of_segments(style: str) -> None:
    checked = plan(path="/a/{x}/b", parameters=[at("path", style=style)])

    def send(text: str) -> None:
        for value in (text, [text, text], {text: text}):
            path = urlsplit(filled(checked, {"x": value}).url).path
            assert (path.count("/"), path.startswith("/a/"), path.endswith("/b")) == (3, True, True)

    assert each_hostile(send) > ROUNDS / 20


@pytest.mark.parametrize(
    "more", [{}, {"allow_reserved": True}, {"style": "pipeDelimited", "explode": False}], ids=str
)
@pytest.mark.requirement("INT-02")
def test_query_argument_stays_one_pair(more: dict[str, Any]) -> None:
    checked = plan(path="/a?fixed=1", parameters=[at("query", **more)])

    def send(text: str) -> None:
        parts = urlsplit(filled(checked, {"x": text}).url)
        assert (f"{parts.scheme}://{parts.netloc}{parts.path}", parts.fragment) == (f"{ORIGIN}/a", "")
        fixed, *pairs = parts.query.split("&")
        assert (fixed, len(pairs), pairs[0].partition("=")[0]) == ("fixed=1", 1, "x")

    assert each_hostile(send) == ROUNDS


@pytest.mark.parametrize(
    "more", [{"style": "deepObject"}, {"explode": True}, {"style": "form", "explode": False}], ids=str
)
@pytest.mark.requirement("INT-02")
def test_member_of_a_query_argument_stays_one_pair(more: dict[str, Any]) -> None:
    checked = plan(path="/a?fixed=1", parameters=[at("query", **more)])

    def send(text: str) -> None:
        parts = urlsplit(filled(checked, {"x": {text: text}}).url)
        assert (f"{parts.scheme}://{parts.netloc}{parts.path}", parts.fragment) == (f"{ORIGIN}/a", "")
        assert parse_qsl(parts.query, keep_blank_values=True)[0] == ("fixed", "1")
        assert (parts.query.count("&"), parts.query.count("=")) == (1, 2)

    assert each_hostile(send) == ROUNDS


@pytest.mark.parametrize("make", [lambda text: text, lambda text: [text, text], lambda text: {text: text}])
@pytest.mark.requirement("INT-04")
def test_header_argument_adds_no_header(make: Callable[[str], Any]) -> None:
    checked = plan(headers={"Accept": "text/plain"}, parameters=[at("header")])

    def send(text: str) -> None:
        request = filled(checked, {"x": make(text)})
        [accept, (name, value)] = request.headers
        assert (accept, name, request.url) == (("Accept", "text/plain"), "x-field", f"{ORIGIN}/")
        assert value.isascii()
        assert value.replace("\t", " ").isprintable()

    assert each_hostile(send) > ROUNDS / 10


@pytest.mark.requirement("INT-04")
def test_cookie_argument_stays_one_cookie() -> None:
    checked = plan(parameters=[at("cookie"), {"argument": "y", "in": "cookie", "name": "last"}])

    def send(text: str) -> None:
        [(name, value)] = filled(checked, {"x": text, "y": "1"}).headers
        assert name == "Cookie"
        first, last = value.split("; ")
        assert (unquote(first.removeprefix("x=")), last) == (text, "last=1")
        assert value.isascii()
        assert value.isprintable()

    assert each_hostile(send) == ROUNDS


@pytest.mark.requirement("INT-03")
def test_json_argument_stays_one_value() -> None:
    body = {
        "mode": "json",
        "template": {"order": {"$argument": "x"}, "list": [{"$argument": "x"}], "admin": False},
    }
    checked = plan(method="POST", body=body)

    def send(text: str) -> None:
        sent = filled(checked, {"x": text}).body
        assert json.loads(sent or b"") == {"order": text, "list": [text], "admin": False}

    assert each_hostile(send) == ROUNDS


@pytest.mark.requirement("INT-03")
def test_json_argument_keeps_its_members() -> None:
    checked = plan(
        method="POST", body={"mode": "json", "template": {"order": {"$argument": "x"}, "admin": False}}
    )

    def send(text: str) -> None:
        value = {text: [text, {text: 1}]}
        assert json.loads(filled(checked, {"x": value}).body or b"") == {"order": value, "admin": False}

    assert each_hostile(send) == ROUNDS


@pytest.mark.parametrize("mode", ["text", "raw"])
@pytest.mark.requirement("INT-03")
def test_text_argument_is_the_body_only(mode: str) -> None:
    body = {"mode": mode, "argument": "x", "content_type": "text/csv"}
    checked = plan(method="PUT", body=body)

    def send(text: str) -> None:
        request = filled(checked, {"x": text})
        assert (request.method, request.url, request.headers) == (
            "PUT", f"{ORIGIN}/", (("Content-Type", "text/csv"),),
        )  # fmt: skip
        assert request.body == text.encode()

    assert each_hostile(send) == ROUNDS


def fields(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form as Django reads them."""
    kind, body = dict(request.headers)["Content-Type"], request.body or b""
    if kind.startswith("multipart"):
        meta = {"CONTENT_TYPE": kind, "CONTENT_LENGTH": str(len(body))}
        found, files = MultiPartParser(meta, BytesIO(body), [], "utf-8").parse()
        assert not files
    else:
        found = QueryDict(body)
    return [(name, value) for name, values in found.lists() for value in values]


@pytest.mark.requirement("INT-03")
def test_form_argument_stays_one_field() -> None:
    template = {"first": "1", "second": {"$argument": "x"}, "third": {"$argument": "y"}}
    checked = plan(method="POST", body={"mode": "form", "template": template})

    def send(text: str) -> None:
        request = filled(checked, {"x": text, "y": "3"})
        assert fields(request) == [("first", "1"), ("second", text), ("third", "3")]
        assert [name for name, _ in request.headers] == ["Content-Type"]

    assert each_hostile(send) == ROUNDS


@pytest.mark.parametrize("mode", ["form", "multipart"])
@pytest.mark.requirement("INT-03")
def test_member_of_a_form_argument_stays_one_field(mode: str) -> None:
    checked = plan(method="POST", body={"mode": mode, "argument": "x"})

    def send(text: str) -> None:
        found = fields(filled(checked, {"x": {"first": "1", text: text, "third": "3"}}))
        assert (found[0], found[-1], found[1][1]) == (("first", "1"), ("third", "3"), text)
        assert len(found) == 3

    assert each_hostile(send) == ROUNDS


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "%2e%2e",
        "%252e%252e",
        "%25252e.",
        "a/../b",
        "..%2f..",
        "..\\..",
        "..;",
        "a\r\nb",
        "a%0d%0ab",
        "",
        [],
    ],
)
@pytest.mark.requirement("INT-02")
def test_value_that_could_name_another_path_is_refused(value: Any) -> None:
    with pytest.raises(UnfitArgument):
        filled(plan(path="/a/{x}", parameters=[at("path")]), {"x": value})


def test_values_are_written_as_json_writes_them() -> None:
    parameters = [{"argument": name, "in": "query"} for name in ("a", "b", "c", "d", "e", "f")]
    arguments = {"a": True, "b": 1, "c": 1.5, "d": None, "e": "1", "f": [1, False]}
    assert filled(plan(parameters=parameters), arguments).url == f"{ORIGIN}/?a=true&b=1&c=1.5&e=1&f=1&f=false"


def test_template_leaves_out_members_without_a_value() -> None:
    template = {
        "a": {"$argument": "a"}, "b": {"$argument": "b", "default": 1}, "c": {"d": {"$argument": "e"}},
        "f": [{"$argument": "a"}, {"$argument": "b"}], "g": "text",
    }  # fmt: skip
    checked = plan(method="POST", body={"mode": "json", "template": template})
    assert json.loads(filled(checked, {}).body or b"") == {"b": 1, "c": {}, "f": [], "g": "text"}
    assert json.loads(filled(checked, {"a": [1], "b": False}).body or b"")["f"] == [[1], False]


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        ({"mode": "json", "template": {"$argument": "x"}}, "application/json", b'"\xc3\xa9"'),
        (
            {"mode": "json", "argument": "x", "content_type": "application/a+json"},
            "application/a+json",
            b'"\xc3\xa9"',
        ),
        (
            {"mode": "form", "template": {"a": {"$argument": "x"}}},
            "application/x-www-form-urlencoded",
            b"a=%C3%A9",
        ),
        ({"mode": "text", "argument": "x"}, "text/plain; charset=utf-8", b"\xc3\xa9"),
        ({"mode": "raw", "argument": "x", "content_type": "text/csv"}, "text/csv", b"\xc3\xa9"),
    ],
)
def test_body_modes(body: dict[str, Any], content_type: str, data: bytes) -> None:
    request = filled(plan(method="POST", body=body), {"x": "é"})
    assert (dict(request.headers)["Content-Type"], request.body) == (content_type, data)


def test_idempotency_key_is_sent_if_it_is_switched_on() -> None:
    off, on = (plan(method="POST", idempotency_key=value) for value in (False, True))
    assert "Idempotency-Key" not in dict(filled(off, {}, idempotency_key="k").headers)
    assert dict(filled(on, {}, idempotency_key="k").headers)["Idempotency-Key"] == "k"


@pytest.mark.requirement("INT-02")
@pytest.mark.parametrize(
    ("path", "parameters", "value"),
    [
        ("/orders?account=5", [at("query")], {"account": "6"}),
        ("/orders?ac%63ount=5", [at("query")], {"account": "6"}),
        ("/orders?x[account]=5", [at("query", style="deepObject")], {"account": "6"}),
        ("/orders", [at("query"), {"argument": "account", "in": "query"}], {"account": "6"}),
        ("/orders", [at("cookie"), {"argument": "account", "in": "cookie"}], {"account": "6"}),
    ],
)
def test_member_of_an_object_does_not_replace_another_part(
    path: str, parameters: list[Any], value: Any
) -> None:
    checked = plan(path=path, parameters=parameters)
    with pytest.raises(UnfitArgument, match="another part of the request"):
        filled(checked, {"account": "5", "x": value})
    filled(checked, {"account": "5", "x": {"x": "6", "other": "7"}})
