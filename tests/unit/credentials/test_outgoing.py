"""Records of requests to other servers: their facts, their bounds, and no secret in any of them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from mcp_app.conf import Settings
from mcp_app.credentials import outgoing
from mcp_app.credentials.outgoing import FIRST, MAX_CHARACTERS, NEWEST, recorded, stored
from mcp_app.egress import EgressFailed, EgressRefused, Policy, Request, Secrets
from mcp_app.observability.correlation import Correlation, correlated
from mcp_app.observability.redaction import Redactor
from tests.unit.egress.sites import LOOPBACK, Heard, serve_kept

TOKEN = "s3cret/token+0000=value"
PIN = "pin-93871?x"
NAMES = Settings().redacted_names
LIMIT = 2_000
OWN = {
    "bearer": Secrets(headers=(("Authorization", f"Bearer {TOKEN}"),)),
    "header": Secrets(headers=(("X-Anything", TOKEN),)),
    "basic": Secrets(
        headers=(("Authorization", f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}"),)
    ),
    "query": Secrets(query=(("k", TOKEN),)),
    "cookie": Secrets(cookies=(("sid", TOKEN),)),
}
FORMS = {
    "text": TOKEN.encode(),
    "json": orjson.dumps({"you": {"sent": [TOKEN]}}),
    "member": orjson.dumps({"access_token": {"deeply": {"a": "another-secret-0001", "b": [1]}}, "n": 1}),
    "url": quote(TOKEN, safe="").encode(),
    "base64": base64.b64encode(TOKEN.encode()),
    "utf-16": TOKEN.encode("utf-16"),
    "event": b'event: message\ndata: {"secret": {"a": {"b": 1}, "c": "hunter2-x"}, "d": "%b"}'
    % TOKEN.encode(),
    "at the limit": b"-" * (LIMIT - 20) + TOKEN.encode() + b"-" * 9_000,
    "at the end of what is read": (TOKEN.encode() + b" ") * 2_000,
    "cut in a member": b'{"pad": "%b", "secret": {"a": {"b": 1}, "c": "hunter2-x", "d": "' % (b"x" * 1_500)
    + b"hunter2-x" * 2_000,
    "argument": PIN.encode(),
    "argument in a URL": b"/find?q=" + quote(PIN, safe="").encode(),
    "argument at the limit": b"-" * (LIMIT - 5) + PIN.encode() + b"-" * 9_000,
}
PRIVATE = (
    TOKEN, quote(TOKEN, safe=""), base64.b64encode(TOKEN.encode()).decode(), TOKEN[:10], "hunter2-x",
    "another-secret-0001", PIN, quote(PIN, safe=""), PIN[:5],
)  # fmt: skip
MESSAGE = orjson.dumps({"params": {"arguments": {"password": PIN, "q": "shoes"}}})


class Echo:
    """A server with one answer. ``parts`` are its chunks."""

    def __init__(self, *parts: bytes, status: int = 200, kind: str = "text/plain") -> None:
        self.parts, self.head = parts, f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\n"

    async def __call__(self, request: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{self.head}Content-Length: {sum(map(len, self.parts))}\r\n\r\n".encode())
        for part in self.parts:
            writer.write(part)
            await writer.drain()


@pytest.fixture
def sent(settings: Any) -> Iterator[list[Any]]:
    """Record the requests of a call."""
    settings.MCP = {**settings.MCP, "MESSAGE_LOG_PAYLOAD_BYTES": LIMIT}
    found: list[Any] = []
    with correlated(Correlation(sent=found)):
        yield found


async def ask(
    server: Echo, *owns: Secrets, body: bytes = b'{"q": "shoes"}', path: str = "/", times: int = 1
) -> None:
    """Send a request with each of the secrets."""
    headers = (("Content-Type", "application/json"), ("Mcp-Session-Id", "s-1"), ("X-Kind", "a"))
    async with serve_kept(server) as site:
        request = Request("POST", site.url(path, "127.0.0.1"), headers, body)
        for own in owns * times:
            async with recorded(request, site.policy(), own) as answer:
                await answer.read()


def written(found: list[Any], message: bytes = MESSAGE, limit: int = LIMIT) -> list[dict[str, Any]]:
    return stored([each.copy() for each in found], Redactor(NAMES), message, limit)


async def test_request_and_response_are_recorded(sent: list[Any]) -> None:
    await ask(
        Echo(b'{"a":', b"1}", status=201, kind="application/json; x=1"), OWN["bearer"], path="/find?q=a"
    )
    (found,) = written(sent)
    assert found.pop("url").endswith("/find?q=a")
    assert found.pop("ms") > 0
    assert found == {
        "number": 1, "method": "POST", "body": '{"q": "shoes"}', "sent": 14, "status": 201,
        "content_type": "application/json", "answer": '{"a":1}', "received": 7, "problem": "",
        "headers": [
            ["Content-Type", "application/json"], ["Mcp-Session-Id", "[redacted]"], ["X-Kind", "a"],
            ["Authorization", "[redacted]"],
        ],
    }  # fmt: skip


@pytest.mark.requirement("INT-05")
@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("form", FORMS)
async def test_secret_that_a_server_repeats_is_never_stored(form: str, status: int, sent: list[Any]) -> None:
    kind = "text/event-stream" if form == "event" else "application/json"
    data = FORMS[form]
    await ask(Echo(data[:7], data[7:], status=status, kind=kind), *OWN.values())
    assert [each.copy().status for each in sent] == [status] * len(OWN)
    for each in sent:
        text = json.dumps(written([each]), ensure_ascii=False).replace("\\u0000", "")
        assert [value for value in PRIVATE if value in text] == []


@pytest.mark.requirement("INT-05")
@pytest.mark.parametrize("form", [form for form in FORMS if form != "event"])
async def test_secret_in_a_request_is_never_stored(form: str, sent: list[Any]) -> None:
    await ask(Echo(b"{}"), OWN["bearer"], body=FORMS[form], path=f"/{quote(PIN)}?password={quote(PIN)}")
    text = json.dumps(written(sent), ensure_ascii=False).replace("\\u0000", "")
    assert [value for value in PRIVATE if value in text] == []


@pytest.mark.parametrize("own", [Secrets(headers=(("X", f"{TOKEN}\n"),)), OWN["bearer"]])
async def test_failure_is_recorded_without_secrets(own: Secrets, sent: list[Any]) -> None:
    policy = Policy(ports=frozenset({9}), allow=LOOPBACK, content_types=None, seconds=5.0)
    with pytest.raises((EgressRefused, EgressFailed)) as raised:
        async with recorded(Request("GET", "http://127.0.0.1:9/"), policy, own):
            pass
    (found,) = written(sent)
    assert found["problem"] == str(raised.value)[: outgoing.MAX_HEADER]
    assert (found["status"], TOKEN in json.dumps(found)) == (None, False)


async def test_bodies_are_cut_like_messages(sent: list[Any]) -> None:
    await ask(Echo(b"x" * 5_000), Secrets(), body=b"y" * 3_000)
    (found,) = written(sent, b"{}")
    assert found["answer"] == "x" * LIMIT + "… [5000 bytes, cut]"
    assert found["body"] == "y" * LIMIT + "… [3000 bytes, cut]"


async def test_requests_of_a_call_share_a_bound(sent: list[Any]) -> None:
    await ask(Echo(b"\1" * 60_000), Secrets(), body=b"\2" * 60_000, times=3)
    assert len(orjson.dumps(written(sent, limit=60_000))) < MAX_CHARACTERS + 5_000
    assert len(orjson.dumps(written(sent))) < 2 * LIMIT + 5_000


async def test_first_and_newest_requests_are_kept(sent: list[Any]) -> None:
    await ask(Echo(b"x"), Secrets(), times=FIRST + NEWEST + 3)
    assert [each["number"] for each in written(sent)] == [1, 2, 3, 4, 8, 9, 10, 11]


@pytest.mark.parametrize(
    "changes", [{"MESSAGE_LOG": False}, {"MESSAGE_LOG_PAYLOAD_BYTES": 0}], ids=["no log", "no bodies"]
)
async def test_nothing_is_recorded_without_stored_messages(
    changes: dict[str, Any], sent: list[Any], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, **changes}
    await ask(Echo(b"x"), OWN["bearer"])
    assert sent == []


async def test_requests_outside_of_calls_are_not_recorded() -> None:
    for current in (None, Correlation()):
        if current is None:
            await ask(Echo(b"x"), OWN["bearer"])
        else:
            with correlated(current):
                await ask(Echo(b"x"), OWN["bearer"])
            assert current.sent is None
