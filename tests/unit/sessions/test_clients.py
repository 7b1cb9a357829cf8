from __future__ import annotations

from typing import Any

from mcp_app.conf import Settings
from mcp_app.message_log.log import MessageLog
from mcp_app.sessions import clients
from mcp_app.sessions.clients import Clients
from mcp_app.sessions.exchange import Exchange, restored
from mcp_app.streams.gateway import Streams
from tests.clients.envelopes import envelope_of
from tests.views import SERVER

IDLE = 1_800.0


def made(name: str = "probe", principal: str = "key:1", version: str = "2026-07-28") -> Exchange:
    return Exchange(envelope_of({}, {"name": name, "version": "1"}, version), principal, SERVER)


def facts(log: MessageLog) -> list[dict[str, Any]]:
    return log._facts


async def test_requests_of_one_client_share_record_id_only(streams: Streams) -> None:
    first, second = made(), made()
    assert first.record_id == second.record_id
    assert first.id != second.id
    assert len({each.record_id for each in (made(), made("other"), made(principal="key:2"))}) == 3
    assert len(first.record_id) <= 64


async def test_restored_exchange_keeps_record_id() -> None:
    exchange = made()
    assert restored(exchange.id, exchange.stored()).record_id == exchange.record_id


async def test_client_is_reported_once_per_interval(streams: Streams, monkeypatch: Any) -> None:
    now = 1_000.0
    monkeypatch.setattr(clients, "monotonic", lambda: now)
    log = MessageLog(streams, Settings())
    seen = Clients(log, IDLE)
    for _ in range(3):
        seen.report(made(), 7, "192.0.2.1")
    (fact,) = facts(log)
    assert fact["session"] == made().record_id
    assert (fact["user"], fact["address"], fact["version"]) == (7, "192.0.2.1", "2026-07-28")
    assert fact["fields"] == {}
    now += IDLE * clients.AGAIN
    seen.report(made(), 7, "192.0.2.1")
    assert len(facts(log)) == 2


async def test_returning_client_is_reported_after_its_record_ended(
    streams: Streams, monkeypatch: Any
) -> None:
    now = 1_000.0
    monkeypatch.setattr(clients, "monotonic", lambda: now)
    log = MessageLog(streams, Settings())
    seen = Clients(log, IDLE)
    # Busy for a while, then silent long enough to end the record.
    for pause in (0, IDLE / 4, IDLE / 4, IDLE / 4):
        now += pause
        seen.report(made(), 7, "192.0.2.1")
    told = len(facts(log))
    now += IDLE + 1
    seen.report(made(), 7, "192.0.2.1")
    assert len(facts(log)) == told + 1


async def test_remembered_clients_are_bounded(streams: Streams, monkeypatch: Any) -> None:
    monkeypatch.setattr(clients, "MOST", 3)
    seen = Clients(MessageLog(streams, Settings()), IDLE)
    for number in range(10):
        seen.report(made(f"client {number}"), None, "")
    assert len(seen._reported) <= 3
