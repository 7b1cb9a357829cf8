"""2026-07-28: the order of the checks every request passes, and their error messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson
import pytest

from mcp_app.protocol.messages.envelope import CLIENT_CAPABILITIES, VERSION
from tests.unit.transports.streamable_http import modern as asked
from tests.unit.transports.streamable_http.asgi import Exchange, Server, request
from tests.unit.transports.streamable_http.modern import Desk, V, meta, modern


@pytest.fixture(autouse=True)
def _offered() -> None:
    asked.offer(Desk())


def _message() -> dict[str, Any]:
    params = {"name": "regional", "arguments": {"region": "eu"}, "_meta": meta()}
    return request("tools/call", params, "seven")


@dataclass
class Sent:
    """A valid call to be invalidated by a test."""

    verb: str = "POST"
    message: dict[str, Any] = field(default_factory=_message)
    cut: bool = False
    more: list[tuple[bytes, bytes]] = field(default_factory=list)
    headers: dict[str, str | None] = field(
        default_factory=lambda: {
            "mcp-protocol-version": V,
            "mcp-method": "tools/call",
            "mcp-name": "regional",
            "mcp-param-region": "eu",
        }
    )

    @property
    def params(self) -> dict[str, Any]:
        found: dict[str, Any] = self.message["params"]
        return found

    def to(self, server: Server) -> Exchange:
        """Send the call."""
        body = orjson.dumps(self.message)
        return server.send(
            self.verb, headers=self.headers, more=self.more, body=body[: -1 if self.cut else None]
        )


def _verb(sent: Sent) -> None:
    sent.verb = "PUT"


def _accept(sent: Sent) -> None:
    sent.headers["accept"] = "application/json"


def _json(sent: Sent) -> None:
    sent.cut = True


def _message_form(sent: Sent) -> None:
    sent.message["jsonrpc"] = "1.0"


def _twice(sent: Sent) -> None:
    sent.more.append((b"mcp-method", b"tools/call"))


def _meta(sent: Sent) -> None:
    del sent.params["_meta"][CLIENT_CAPABILITIES]


def _comparison(sent: Sent) -> None:
    sent.headers["mcp-name"] = "another"


def _version(sent: Sent) -> None:
    sent.params["_meta"][VERSION] = sent.headers["mcp-protocol-version"] = "2031-01-01"


def _mirrored(sent: Sent) -> None:
    sent.headers["mcp-param-region"] = "us"


def _arguments(sent: Sent) -> None:
    sent.params["arguments"]["note"] = 7


Rung = tuple[Callable[[Sent], None], int, int, str]
LADDER: list[Rung] = [
    (_verb, 405, -32600, "method"),
    (_accept, 406, -32600, "Accept"),
    (_json, 400, -32700, "not valid JSON"),
    (_message_form, 400, -32600, "jsonrpc"),
    (_twice, 400, -32020, "Mcp-Method was sent twice"),
    (_meta, 400, -32602, "clientCapabilities"),
    (_comparison, 400, -32020, "Mcp-Name is 'another'"),
    (_version, 400, -32022, "not supported"),
    (_mirrored, 400, -32020, "Mcp-Param-Region is 'us'"),
]


def _refusal(exchange: Exchange) -> tuple[int, int, str]:
    return exchange.status, exchange.json["error"]["code"], exchange.json["error"]["message"]


@pytest.mark.requirement("ERA-08", "ERA-10", "T-MOD-12")
@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung[0].__name__)
async def test_each_violation_returns_its_code_and_request_id(rung: Rung, server: Server) -> None:
    sent = Sent()
    rung[0](sent)
    exchange = await sent.to(server).done()
    status, code, words = _refusal(exchange)
    assert (status, code) == (rung[1], rung[2])
    assert rung[3] in words
    assert exchange.headers[b"content-type"] == b"application/json"
    known = rung[0] not in (_verb, _accept, _json)
    assert exchange.json.get("id") == ("seven" if known else None)


@pytest.mark.requirement("ERA-10")
@pytest.mark.parametrize(("first", "second"), list(pairwise(LADDER)), ids=lambda rung: rung[0].__name__)
async def test_earlier_of_two_violations_is_reported(first: Rung, second: Rung, server: Server) -> None:
    sent = Sent()
    second[0](sent)
    first[0](sent)
    status, code, words = _refusal(await sent.to(server).done())
    assert (status, code) == (first[1], first[2])
    assert first[3] in words


@pytest.mark.requirement("ERA-10", "TOOL-10")
async def test_arguments_are_validated_last(server: Server) -> None:
    sent = Sent()
    _arguments(sent)
    assert (await sent.to(server).done()).json["result"]["isError"] is True
    _mirrored(sent)
    assert _refusal(await sent.to(server).done())[:2] == (400, -32020)


@pytest.mark.requirement("ERA-10")
async def test_unknown_method_is_checked_after_version_and_before_params(server: Server) -> None:
    unknown = modern(server, "tools/lost", {"cursor": 7})
    assert _refusal(await unknown.done())[:2] == (404, -32601)
    told = meta("2031-01-01")
    newer = modern(server, "tools/lost", told=told, headers={"mcp-protocol-version": "2031-01-01"})
    assert _refusal(await newer.done())[:2] == (400, -32022)
    missing = modern(server, "tools/lost", headers={"mcp-method": None})
    assert _refusal(await missing.done())[:2] == (400, -32020)


async def test_shortcut_rejects_every_violation(server: Server) -> None:
    right = Sent().to(server)
    assert asked.in_one_piece(right, server) is not None
    await right.done()
    for rung in LADDER[1:]:
        sent = Sent()
        rung[0](sent)
        exchange = sent.to(server)
        assert asked.in_one_piece(exchange, server) is None
        await exchange.done()
