"""Requests of imported operations are, byte for byte, those of an independent client (INT-26).

``tests/openapi/oracle.mjs`` has recorded what swagger-client sends. Where it differs from OpenAPI's table,
another client decides: uritemplate (RFC 6570) for parameters, requests for multipart bodies.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import orjson
import pytest
import requests
import uritemplate

from mcp_app.catalogue.sources.http.filling import filled
from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.reading import read
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.egress import exchange
from tests.unit.egress.sites import Heard, always, response, serve_kept

TABLE: Final = Path(__file__).parents[4] / "openapi" / "requests.json"
# Headers of the connection and of the client, which do not depend on the operation.
OWN: Final = frozenset(("host", "user-agent", "accept-encoding"))
Case = dict[str, Any]
# The request line, the headers by name, and the body.
Sent = tuple[str, dict[str, list[str]], bytes]


def request_of(case: Case, origin: str) -> Any:
    """Return the request for an operation after its import."""
    document = {
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": origin}],
        "paths": {case["path"]: {case["method"]: {"responses": {}, **case["operation"]}}},
    }
    found = Converter(read(orjson.dumps(document), "https://docs.example.com/openapi.json"))
    tool = found.tool(f"{case['method'].upper()} {case['path']}")
    plan = RequestPlan.read(tool.request)
    arguments = {each.argument: case["values"][each.name] for each in plan.parameters}
    if "body" in case:
        is_whole = plan.body.argument or "$argument" in (plan.body.template or {})
        arguments |= {"body": case["body"]} if is_whole else case["body"]
    return filled(plan, arguments)


def shown(heard: Heard) -> Sent:
    """Return line, headers and body, with the same boundary for each multipart body."""
    return normalized(heard.line, [(name.lower(), value) for name, value in heard.headers], heard.body)


def recorded(case: Case) -> Sent:
    sent = case["sent"]
    return normalized(f"{sent['line']} HTTP/1.1", sent["headers"], base64.b64decode(sent["body"]))


def normalized(line: str, headers: Any, body: bytes) -> Sent:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        if name not in OWN:
            found.setdefault(name, []).append(value)
    [kind] = found.get("content-type", [""])
    if boundary := re.search("boundary=(.*)", kind):
        body = body.replace(boundary[1].encode(), b"BOUNDARY")
        found["content-type"] = [kind.replace(boundary[1], "BOUNDARY")]
        found["content-length"] = [str(len(body))]
    return line, found, body


def text_of(value: Any) -> Any:
    """Return a value with texts in place of numbers, as uritemplate needs it."""
    if isinstance(value, dict):
        return {name: text_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [text_of(each) for each in value]
    return value if isinstance(value, str) else json.dumps(value)


def by_rfc_6570(case: Case, sent: Sent) -> Sent:
    """Return what uritemplate makes of the parameter ``color``."""
    lead = {"simple": "", "label": ".", "matrix": ";"}.get(case["style"], "?")
    template = f"{{{lead}color{'*' if case['explode'] else ''}}}"
    text = uritemplate.expand(template, color=text_of(case["value"]))
    line, headers, body = sent
    if case["place"] == "path":
        return f"GET /x/{text}/y HTTP/1.1", headers, body
    if case["place"] == "query":
        return f"GET /x{text} HTTP/1.1", headers, body
    cookies = {"cookie": [text[1:].replace("&", "; ")]} if text else {}
    return line, {"accept": headers["accept"], **cookies}, body


def as_json(case: Case, sent: Sent) -> Sent:
    """Return the request with the value as JSON."""
    line, headers, body = sent
    data = orjson.dumps(value_of(case))
    if case["place"] == "body":
        return line, {**headers, "content-length": [str(len(data))]}, data
    if case["place"] == "header":
        return line, {**headers, "x-color": [data.decode()]}, body
    return line.replace("text", quote(data)), headers, body


def with_repeated_lists(case: Case, sent: Sent) -> Sent:
    """Return the form with a field for each item of a list, as uritemplate writes it."""
    fields = uritemplate.expand("{?list*}", list=case["body"]["list"])[1:].encode()
    return with_body(sent, re.sub(b"(?<=&)list=[^&]*|^list=[^&]*", fields, sent[2]))


def with_deep_lists(case: Case, sent: Sent) -> Sent:
    """Return the form with brackets for the items of a list that is a member of an object."""
    return with_body(sent, sent[2].replace(b"%5Bb%5D=%5B%22%C3%A9%22%5D", b"%5Bb%5D%5B0%5D=%C3%A9"))


def with_parts(case: Case, sent: Sent) -> Sent:
    """Return the multipart body that requests makes."""
    fields: list[tuple[str, Any]] = []
    for name, value in case["body"].items():
        kind = ["application/json"] if isinstance(value, dict) else []
        for each in value if isinstance(value, list) else [value]:
            text = each if isinstance(each, str) else orjson.dumps(each).decode()
            fields.append((name, (None, text, *kind)))
    made = requests.Request("POST", "http://localhost/x", files=fields).prepare()
    assert isinstance(made.body, bytes)
    return normalized(sent[0], [("accept", "*/*"), *_lower(made.headers.items())], made.body)


def _lower(headers: Any) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers]


def with_body(sent: Sent, body: bytes) -> Sent:
    line, headers, _ = sent
    return line, {**headers, "content-length": [str(len(body))]}, body


def with_escaped_pipes(case: Case, sent: Sent) -> Sent:
    """Return the request with its separators percent-encoded."""
    line, headers, body = sent
    escaped = body.replace(b"|", b"%7C")
    length = {"content-length": [str(len(escaped))]} if body else {}
    return line.replace("|", "%7C"), {**headers, **length}, escaped


def value_of(case: Case) -> Any:
    return case.get("value", case.get("body"))


def is_empty(case: Case) -> bool:
    return case.get("value", 0) in ("", [], {})


# Where swagger-client is not followed: the rows, and what is right by OpenAPI's table.
DIFFERENT: Final[dict[str, tuple[Callable[[Case], bool], Callable[[Case, Sent], Sent]]]] = {
    # OpenAPI 3.0.3 and before had dots. 3.0.4 and 3.1.1 have commas, as RFC 6570 has.
    "lists and objects of the style label without explode": (
        lambda case: case.get("style") == "label" and not case["explode"] and case["kind"] != "primitive",
        by_rfc_6570,
    ),
    # It leaves out an empty text, which OpenAPI shows as "color=". It sends empty lists, which are undefined.
    "empty values in the query": (
        lambda case: (
            case["place"] == "query" and is_empty(case) and case.get("style") not in (None, "deepObject")
        ),
        by_rfc_6570,
    ),
    # It sends an empty header for an empty object, but none for an empty list. Both are undefined.
    "empty objects in headers": (
        lambda case: case["place"] == "header" and value_of(case) == {},
        lambda case, sent: (sent[0], {"accept": sent[1]["accept"]}, sent[2]),
    ),
    # It escapes separators, leaves "%", "/" and "?" as they are, and sends "color=color%3Done" with explode.
    "cookies": (lambda case: case["place"] == "cookie", by_rfc_6570),
    # "|" is not a character of a URI (RFC 3986). OpenAPI 3.1.1 has "%7C" in its examples.
    "separators of the style pipeDelimited": (
        lambda case: "pipeDelimited" in json.dumps([case.get("style"), case["operation"]]),
        with_escaped_pipes,
    ),
    # The URLs of browsers escape "'" in queries. In RFC 3986 it is reserved, and reserved characters stay.
    "apostrophe with allowReserved": (
        lambda case: case["kind"] == "reserved",
        lambda case, sent: (sent[0].replace("%27", "'"), *sent[1:]),
    ),
    # It sends texts as they are, and no body at all for "", 0 and false.
    "texts, 0 and false as JSON": (
        lambda case: (
            case["kind"] in ("content", "json")
            and (isinstance(value_of(case), str) or value_of(case) in (0, False))
        ),
        as_json,
    ),
    # The default of OpenAPI is the style form with explode.
    "lists in forms without an encoding": (
        lambda case: (
            case["kind"] == "form" and encoding_of(case) is None and len(case["body"].get("list", "")) > 1
        ),
        with_repeated_lists,
    ),
    # OpenAPI does not define lists inside of deepObject.
    "lists inside deepObject": (
        lambda case: case["kind"] == "form" and "deepObject" in json.dumps(encoding_of(case)),
        with_deep_lists,
    ),
    # A list has a part for each item.
    "lists in multipart bodies": (lambda case: case["kind"] == "multipart", with_parts),
}


def encoding_of(case: Case) -> Any:
    [media] = case["operation"]["requestBody"]["content"].values()
    return media.get("encoding")


@pytest.mark.requirement("INT-26")
async def test_requests_equal_those_of_an_independent_client() -> None:
    cases: list[Case] = json.loads(TABLE.read_text())
    wrong, followed, used = [], 0, set()
    async with serve_kept(always(response())) as site:
        for case in cases:
            rules = {name: decide for name, (applies, decide) in DIFFERENT.items() if applies(case)}
            if by_rfc_6570 in rules.values() and isinstance(case["value"], dict):
                # uritemplate sorts the members of objects.
                case["value"] = dict(sorted(case["value"].items()))
                case["values"] = dict.fromkeys(case["values"], case["value"])
            request = request_of(case, f"http://127.0.0.1:{site.port}")
            async with exchange(request, site.policy()) as answer:
                await answer.read()
            ours, theirs = shown(site.requests[-1]), recorded(case)
            for name, decide in rules.items():
                used |= {name} if decide(case, theirs) != theirs else set()
                theirs = decide(case, theirs)
            followed += theirs == recorded(case)
            if ours != theirs:
                wrong.append((case, ours, theirs))
    assert wrong == []
    assert followed > 250
    assert used == DIFFERENT.keys()
