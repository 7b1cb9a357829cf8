"""Incidents: what is recorded of an exception, its bounds, and the removal of secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from mcp_app.conf import Settings
from mcp_app.foreign_code import Escaped
from mcp_app.observability import incidents
from mcp_app.observability.incidents import (
    LONGEST_MESSAGE,
    MOST_FRAMES,
    MOST_RECENT,
    OWN,
    UNREADABLE,
    Incident,
    StoredException,
)
from mcp_app.observability.redaction import MARK, Redactor

NUMBER = "1f2e3d4c"
SECRET = "planted-secret-value"
# A secret that Python writes in another way.
ODD = f"\\{SECRET}\n"
SPACED = f"ä {SECRET}/"
REQUEST_SPACED = json.dumps({"params": {"arguments": {"password": SPACED}}}).encode()
REDACTOR = Redactor(Settings().redacted_names)


@pytest.fixture(autouse=True)
def _no_incidents() -> Iterator[None]:
    incidents._recent.clear()
    yield
    incidents._recent.clear()


def raised(code: Callable[[], Any]) -> BaseException:
    try:
        code()
    except BaseException as error:  # noqa: BLE001 - any exception of the code
        return error
    raise AssertionError("nothing was raised")


def stored(code: Callable[[], Any], request: bytes = b"{}") -> StoredException:
    found = StoredException.read(Incident.of(NUMBER, raised(code)).encoded(REDACTOR, request))
    assert found is not None
    return found


def answer(number: str = NUMBER) -> bytes:
    text = f"The tool failed unexpectedly (incident {number})."
    return json.dumps({"result": {"content": [{"type": "text", "text": text}], "isError": True}}).encode()


def customer() -> None:
    raise ValueError("no such customer")


def test_exception_has_class_message_and_frames() -> None:
    found = stored(customer)
    assert (found.exception, found.message) == ("ValueError", "no such customer")
    assert [frame.function for frame in found.frames] == ["raised", "customer"]
    last = found.frames[-1]
    assert last.file == "tests/unit/observability/test_incidents.py"
    assert (last.module, last.own, last.offset) == (__name__, True, 1)
    assert found.origin == last
    assert found.place == f"{last.file}:customer+1"
    assert found.text.splitlines()[0] == "ValueError: no such customer"
    assert f"{last.file}:{last.line} in customer" in found.text.splitlines()[-1]


def test_message_cannot_forge_a_frame() -> None:
    def fail() -> None:
        raise ValueError("no\n▸ shop/mcp.py:1 in innocent")

    assert [line for line in stored(fail).text.splitlines() if line.startswith(OWN)][-1].endswith("in fail")


def test_class_outside_builtins_has_its_module() -> None:
    class Gone(Exception):
        pass

    def leave() -> None:
        raise Gone

    found = stored(leave)
    assert found.exception.startswith(f"{__name__}.")
    assert found.exception.endswith(".Gone")
    assert found.message == ""


def test_origin_is_the_innermost_frame_of_the_project() -> None:
    found = stored(lambda: json.loads("{"))
    assert found.exception == "json.decoder.JSONDecodeError"
    assert [frame.own for frame in found.frames[-2:]] == [False, False]
    assert found.frames[-1].file == "json/decoder.py"
    assert found.origin is not None
    assert found.origin.function == "<lambda>"


def deep(left: int, then: Callable[[], Any]) -> None:
    if left:
        deep(left - 1, then)
    else:
        then()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_frames_are_bounded_and_keep_those_of_the_project() -> None:
    def dump() -> None:
        json.dumps([*json.loads(nested(20)), object()], indent=1)

    for code in (lambda: deep(500, customer), dump):
        found = stored(code)
        assert len(found.frames) <= MOST_FRAMES
        assert any(frame.own for frame in found.frames)
    assert sum(frame.omitted for frame in stored(lambda: deep(500, customer)).frames) >= 480
    assert len(Incident.of(NUMBER, raised(lambda: deep(500, customer))).encoded(REDACTOR, b"{}")) < 6_000


def test_exception_that_is_no_exception_class_is_recorded_itself() -> None:
    def leave() -> None:
        try:
            raise SystemExit("bye")
        except SystemExit as error:
            raise Escaped from error

    assert stored(leave).exception == "SystemExit"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("", ""),
        ("x" * 100_000, "x" * LONGEST_MESSAGE),
        ("lone \ud800 surrogate", "lone ? surrogate"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_message_is_bounded_and_can_be_stored(message: str, shown: str) -> None:
    def fail() -> None:
        raise RuntimeError(message)

    found = stored(fail).message
    assert found.startswith(shown)
    assert len(found) < LONGEST_MESSAGE + 100


def test_message_that_cannot_be_read_is_replaced() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    def fail() -> None:
        raise Mute

    assert stored(fail).message == UNREADABLE


@pytest.mark.parametrize(
    ("message", "request_"),
    [
        (f"login failed: password={SECRET}", b"{}"),
        (f"GET https://ada:{SECRET}@db.internal/ failed", b"{}"),
        (f"sent 'Authorization: Bearer {SECRET}'", b"{}"),
        (f"cannot send {{'password': '{SECRET}', 'name': 'ada'}}", b"{}"),
        (f'cannot send {{"api_key": "{SECRET}"}}', b"{}"),
        (f'{{"token": "{SECRET}"}}', b"{}"),
        (f"Login(user='ada', password='{SECRET} x', retries=3)", b"{}"),
        (f"Login(password=b'x {SECRET}')", b"{}"),
        (f'DB_PASSWORD="x {SECRET}" is wrong', b"{}"),
        (f"password = '{SECRET}'", b"{}"),
        (f"connect(password='x {SECRET}", b"{}"),
        (f"connect(url='redis://cache/?password={SECRET}', retries=3)", b"{}"),
        (f"connect(config={{'password': '{SECRET}'}})", b"{}"),
        (f"GET /login?next=https://shop/?token={SECRET}", b"{}"),
        (f"{{'config': \"{{'password': '{SECRET}'}}\"}}", b"{}"),
        (json.dumps({"body": json.dumps({"password": SECRET})}) + " is wrong", b"{}"),
        (repr(repr({"it's": 1, "password": SECRET})), b"{}"),
        (f"{{'users': [{{'name': 'ada', 'password': '{SECRET}'}}]}}", b"{}"),
        (f"{{'password': b'x {SECRET}'}}", b"{}"),
        (f"{{'secret': {{'value': '{SECRET}'}}}}", b"{}"),
        (f"{{'secret': ['x', '{SECRET}'], 'name': 'ada'}}", b"{}"),
        (f"{{'secret': ('x', '{SECRET}')}}", b"{}"),
        (f"{SECRET} is not a password", b'{"params":{"arguments":{"password":"%s"}}}' % SECRET.encode()),
        (f"invalid: {ODD!r}", json.dumps({"params": {"arguments": {"password": ODD}}}).encode()),
        (f"GET /find?q={quote(SPACED)} failed", REQUEST_SPACED),
        (f"GET /find?q={quote(SPACED, safe='')} failed", REQUEST_SPACED),
        (f"GET /find?q={quote_plus(SPACED)} failed", REQUEST_SPACED),
        (f"sent {SPACED.encode()!r}", REQUEST_SPACED),
        (f"not in {SECRET}", b'{"params":{"arguments":{"secret":{"a":["%s"]}}}}' % SECRET.encode()),
    ],
)
def test_secrets_in_the_message_are_redacted(message: str, request_: bytes) -> None:
    def fail() -> None:
        raise RuntimeError(message)

    found = stored(fail, request_).message
    assert SECRET not in found
    assert MARK in found


def test_incident_belongs_to_the_first_answer_that_names_it() -> None:
    incident = Incident.of(NUMBER, raised(customer))
    incidents.record(incident)
    found = incidents.named_in([b"{}", answer("00000000"), answer(), answer()])
    assert found == [(2, incident)]
    incidents.forget([NUMBER])
    assert incidents.named_in([answer()]) == []


def test_oldest_incidents_are_forgotten_if_answers_are_not_logged() -> None:
    error = raised(customer)
    for number in range(MOST_RECENT + 5):
        incidents.record(Incident.of(f"{number:08x}", error))
    assert len(incidents._recent) == MOST_RECENT
    assert incidents.named_in([answer("00000000")]) == []
    assert incidents.named_in([answer(f"{MOST_RECENT + 4:08x}")])


@pytest.mark.parametrize("text", [None, "", "not JSON", "[]", '{"type":"x"}', '{"type":1,"frames":[3]}'])
def test_unreadable_stored_exception_is_none(text: str | None) -> None:
    assert StoredException.read(text) is None
