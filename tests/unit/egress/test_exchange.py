"""Requests over kept connections, against real loopback servers (INT-05, 08, 09, 16)."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
from ipaddress import ip_network
from typing import Any

import pytest

from mcp_app.egress import (
    EgressFailed,
    EgressRefused,
    Request,
    Secrets,
    Sent,
    connections,
    exchange,
    fetch,
    wire,
)
from mcp_app.egress.exchange import Progress, send
from tests.unit.egress.sites import Heard, KeptSite, Names, always, raw, response, serve, serve_kept

HOME = Names(site_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])
OK = always(response())


async def ask(site: KeptSite, request: Request, *secrets: Secrets, **policy: Any) -> bytes:
    async with exchange(request, site.policy(**policy), *secrets, resolve=HOME) as answer:
        return await answer.read()


async def test_request_has_its_method_headers_and_body() -> None:
    async with serve_kept(always(response(b'{"a":1}', "X-Left: 3"))) as site:
        request = Request("PATCH", site.url("/a%2Fb?c=%20"), (("Accept", "text/x"), ("X-A", "1")), b"body")
        async with exchange(request, site.policy(), resolve=HOME) as answer:
            got = (answer.status, answer.content_type, answer.header("x-left"), await answer.read())
    heard = site.requests[0]
    assert got == (200, "application/json", "3", b'{"a":1}')
    assert (heard.line, heard.body) == ("PATCH /a%2Fb?c=%20 HTTP/1.1", b"body")
    wanted = {"host": f"site.test:{site.port}", "accept": "text/x", "x-a": "1", "content-length": "4"}
    assert {name: heard.header(name) for name in wanted} == wanted


async def test_secrets_are_added_to_headers_query_and_cookies() -> None:
    secrets = Secrets((("Authorization", "Bearer t"),), (("key", "a b&c"),), (("sid", "s"),), "one")
    async with serve_kept(OK) as site:
        await ask(site, Request("GET", site.url("/x?a=1"), (("Cookie", "lang=en"),)), secrets)
    heard = site.requests[0]
    assert heard.line == "GET /x?a=1&key=a%20b%26c HTTP/1.1"
    assert heard.header("authorization") == "Bearer t"
    assert [value for name, value in heard.headers if name.lower() == "cookie"] == ["lang=en; sid=s"]
    assert repr(secrets) == "Secrets(key='one')"


async def test_secret_replaces_parts_of_the_request_with_its_name() -> None:
    secrets = Secrets((("X-Key", "own"),), (("api key", "own"),), (("sid", "own"),), "one")
    sent = (("x-key", "given"), ("Cookie", "sid=given; lang=en; sid=more"), ("X-Other", "1"))
    async with serve_kept(OK) as site:
        await ask(site, Request("GET", site.url("/x?api%20key=given&a=%31&api+key=more"), sent), secrets)
    heard = site.requests[0]
    assert heard.line == "GET /x?a=%31&api%20key=own HTTP/1.1"
    shown = [(name.lower(), value) for name, value in heard.headers]
    found = [pair for pair in shown if pair[0] in ("x-key", "cookie", "x-other")]
    assert found == [("x-other", "1"), ("x-key", "own"), ("cookie", "lang=en; sid=own")]


async def test_connection_is_kept_for_the_same_credential_only() -> None:
    async with serve_kept(OK) as site:
        for key in ("one", "one", "two", "", "one"):
            await ask(site, Request("GET", site.url()), Secrets(key=key))
    assert [heard.connection for heard in site.requests] == [0, 0, 1, 2, 0]


async def test_name_is_resolved_and_checked_for_each_new_connection() -> None:
    names = Names(site_test=[["127.0.0.1"], ["127.0.0.2"]])
    async with serve_kept(OK) as site:
        for key, is_refused in (("a", False), ("a", False), ("b", True)):
            request = exchange(Request("GET", site.url()), site.policy(), Secrets(key=key), resolve=names)
            if is_refused:
                with pytest.raises(EgressRefused, match="public internet"):
                    async with request:
                        pass
            else:
                async with request as answer:
                    await answer.read()
    assert (names.lookups, site.connections) == ([("site.test", site.port)] * 2, 1)


async def test_networks_of_the_policy_separate_connections() -> None:
    async with serve_kept(OK) as site:
        await ask(site, Request("GET", site.url()))
        with pytest.raises(EgressRefused, match="public internet"):
            await ask(site, Request("GET", site.url()), allow=frozenset({ip_network("10.0.0.0/8")}))
    assert site.connections == 1


async def test_unread_answer_closes_its_connection() -> None:
    async with serve_kept(always(response(b"x" * 1_000_000))) as site:
        async with exchange(Request("GET", site.url()), site.policy(), resolve=HOME):
            pass
        await asyncio.wait_for(site.closed.wait(), 2)
        async with exchange(Request("GET", site.url()), site.policy(), resolve=HOME) as answer:
            assert len(await answer.read()) == 1_000_000
    assert site.connections == 2


@pytest.mark.parametrize("moment", ["before the answer", "in the body"])
@pytest.mark.requirement("INT-09")
async def test_cancellation_closes_the_connection_at_once(moment: str) -> None:
    asked = asyncio.Event()

    async def hold(request: Heard, writer: asyncio.StreamWriter) -> None:
        if moment == "in the body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
            await writer.drain()
        asked.set()

    async with serve_kept(hold) as site:
        task = asyncio.create_task(ask(site, Request("POST", site.url(), (), b"x")))
        await asyncio.wait_for(asked.wait(), 2)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(site.closed.wait(), 2)
    assert len(site.requests) == 1


@pytest.mark.requirement("INT-09")
async def test_deadline_closes_the_connection_and_states_that_the_request_left() -> None:
    async def silent(request: Heard, writer: asyncio.StreamWriter) -> None:
        pass

    async with serve_kept(silent) as site:
        with pytest.raises(EgressFailed, match=r"0\.2 seconds") as failure:
            await ask(site, Request("POST", site.url(), (), b"x"), seconds=0.2)
        await asyncio.wait_for(site.closed.wait(), 2)
    assert failure.value.sent


async def test_closed_port_states_that_nothing_was_sent() -> None:
    async with serve_kept(OK) as site:
        pass
    with pytest.raises(EgressFailed, match="connection") as failure:
        await ask(site, Request("POST", site.url(), (), b"x"))
    assert not failure.value.sent


@pytest.mark.parametrize(("method", "requests"), [("GET", 3), ("POST", 2)])
@pytest.mark.requirement("INT-13")
async def test_only_a_safe_request_is_repeated_on_a_connection_that_was_closed(
    method: str, requests: int
) -> None:
    async def once(request: Heard, writer: asyncio.StreamWriter) -> None:
        if len(site.requests) != 2:
            writer.write(response())
        else:
            writer.close()

    body = b"x" if method == "POST" else None
    async with serve_kept(once) as site:
        await ask(site, Request(method, site.url(), (), body))
        if method == "GET":
            await ask(site, Request(method, site.url(), (), body))
        else:
            with pytest.raises(EgressFailed) as failure:
                await ask(site, Request(method, site.url(), (), body))
            assert failure.value.sent
    assert len(site.requests) == requests


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_request_takes_another_connection_than_one_that_was_closed(method: str) -> None:
    ended = asyncio.Event()

    async def once(request: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(response())
        if len(site.requests) == 1:
            writer.close()
            await writer.wait_closed()
            ended.set()

    async with serve_kept(once) as site:
        for _ in range(2):
            await ask(site, Request(method, site.url(), (), b"x" if method == "POST" else None))
            await ended.wait()
    assert [heard.connection for heard in site.requests] == [0, 1]


async def test_only_the_used_connection_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()
    examined: list[bool] = []
    found = wire.is_readable

    async def hold(request: Heard, writer: asyncio.StreamWriter) -> None:
        if len(site.requests) == 5:
            gate.set()
        await gate.wait()
        writer.write(response())

    async with serve_kept(hold) as site:
        await asyncio.gather(*(ask(site, Request("GET", site.url())) for _ in range(5)))
        monkeypatch.setattr(wire, "is_readable", lambda each: examined.append(found(each)) or examined[-1])
        await ask(site, Request("GET", site.url()))
    assert (site.connections, examined) == (5, [False])


@pytest.mark.requirement("INT-16")
async def test_requests_to_one_origin_are_bounded_and_wait_inside_their_time() -> None:
    running, most, release = 0, 0, asyncio.Event()

    async def hold(request: Heard, writer: asyncio.StreamWriter) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        writer.write(response())

    async with serve_kept(hold) as site:
        tasks = [
            asyncio.create_task(
                ask(site, Request("GET", site.url()), Secrets(key=str(number % 2)), concurrent=3)
            )
            for number in range(8)
        ]
        while running < 3:
            await asyncio.sleep(0.01)
        with pytest.raises(EgressFailed, match=r"0\.1 seconds") as failure:
            await ask(site, Request("GET", site.url()), concurrent=3, seconds=0.1)
        assert not failure.value.sent
        release.set()
        assert await asyncio.gather(*tasks) == [b"{}"] * 8
    assert most == 3


@pytest.mark.parametrize(
    ("location", "method", "outcome"),
    [
        ("/there", "GET", "followed"),
        ("http://other.test:{port}/there", "GET", "another host"),
        ("https://site.test:{port}/there", "GET", "another host"),
        ("/there", "POST", "answer"),
    ],
)
async def test_redirect_is_followed_on_one_origin_by_safe_methods_only(
    location: str, method: str, outcome: str
) -> None:
    async def handle(request: Heard, writer: asyncio.StreamWriter) -> None:
        if "/there" in request.line:
            writer.write(response(b"there"))
        else:
            writer.write(response(b"", f"Location: {location.format(port=site.port)}", status="302 Found"))

    async with serve_kept(handle) as site:
        request = Request(method, site.url(), (), b"" if method == "POST" else None)
        secrets = Secrets((("Authorization", "Bearer t"),))
        if outcome == "another host":
            with pytest.raises(EgressRefused, match=outcome):
                await ask(site, request, secrets, max_redirects=2)
        else:
            assert await ask(site, request, secrets, max_redirects=2) == (
                b"there" if outcome == "followed" else b""
            )
    assert len(site.requests) == (2 if outcome == "followed" else 1)


async def test_redirect_is_an_answer_without_permission_to_follow() -> None:
    moved = always(response(b"", "Location: /there", status="302 Found"))
    async with serve_kept(moved) as site:
        request = Request("GET", site.url())
        async with exchange(request, site.policy(), resolve=HOME) as answer:
            assert answer.status == 302
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (response(b"x" * 2_000), EgressRefused, "larger than the 1 KiB"),
        (
            response(gzip.compress(b"x" * 2_000), "Content-Encoding: gzip"),
            EgressRefused,
            "larger than the 1 KiB",
        ),
        (response(b"x", "Content-Encoding: br"), EgressRefused, "coding"),
        (response(b"x" * 9, "Content-Encoding: gzip"), EgressFailed, "damaged"),
        (response(gzip.compress(b"a") + b"x", "Content-Encoding: gzip"), EgressFailed, "damaged|early"),
        (
            response(gzip.compress(b"a") + gzip.compress(b"b")[:-1], "Content-Encoding: gzip"),
            EgressFailed,
            "early",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nx", EgressFailed, "seconds"),
        (b"+PONG\r\n\r\n", EgressFailed, "did not speak HTTP"),
    ],
    ids=[
        "large",
        "inflated",
        "coding",
        "damaged",
        "text after gzip",
        "second member ends early",
        "short",
        "other protocol",
    ],
)
async def test_answer_is_bounded(data: bytes, error: type[Exception], reason: str) -> None:
    async with serve_kept(always(data)) as site:
        with pytest.raises(error, match=reason):
            await ask(site, Request("GET", site.url()), max_bytes=1_024, max_raw_bytes=1_024, seconds=0.5)


async def test_all_members_of_a_gzip_body_are_read() -> None:
    body = gzip.compress(b"a" * 500) + gzip.compress(b"b") + gzip.compress(b"")
    async with serve_kept(always(response(body, "Content-Encoding: gzip"))) as site:
        assert await ask(site, Request("GET", site.url())) == b"a" * 500 + b"b"


async def test_gzip_body_with_very_many_members_is_refused() -> None:
    body = response(gzip.compress(b"") * 2_000, "Content-Encoding: gzip")
    async with serve_kept(always(body)) as site:
        with pytest.raises(EgressRefused, match="too many parts"):
            await ask(site, Request("GET", site.url()))


async def test_content_types_are_checked_per_request() -> None:
    async with serve_kept(always(response(b"<p>", kind="text/html"))) as site:
        with pytest.raises(EgressRefused, match="not of a type"):
            await ask(site, Request("GET", site.url()), content_types=frozenset({"application/json"}))
        assert await ask(site, Request("GET", site.url())) == b"<p>"


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
async def test_answer_without_body_may_state_a_content_coding(status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\nContent-Type: text/html\r\n"
    size = "Content-Length: 700\r\n" if status == "200 OK" else ""
    async with serve(raw(f"{head}{size}\r\n".encode())) as site:
        method = "HEAD" if status == "200 OK" else "GET"

        policy = site.policy(max_redirects=0, content_types=None)
        fetched = await fetch(f"http://site.test:{site.port}/", policy, sent=Sent(method, {}), resolve=HOME)
    assert (fetched.status, fetched.body) == (int(status[:3]), b"")


@pytest.mark.parametrize(
    ("request_", "secrets"),
    [
        (Request("CONNECT", "http://site.test/"), Secrets()),
        (Request("GET", "http://site.test/", (("Host", "x"),)), Secrets()),
        (Request("GET", "http://site.test/", (("A", "1\r\nB: 2"),)), Secrets()),
        (Request("GET", "ftp://site.test/"), Secrets()),
        (Request("GET", "http://u:p@site.test/"), Secrets()),
        (Request("GET", "http://10.0.0.1/"), Secrets()),
    ],
)
async def test_request_that_could_reach_another_place_is_refused(request_: Request, secrets: Secrets) -> None:
    with pytest.raises(EgressRefused):
        async with exchange(request_, KeptSite(80).policy(), secrets, resolve=HOME):
            pass


@pytest.mark.parametrize(
    "secrets",
    [
        Secrets(headers=(("Host", "inside"),)),
        Secrets(headers=(("Authorization", "a\r\nB: c"),)),
        Secrets(cookies=(("a", "b; c=d"),)),
    ],
)
async def test_secret_cannot_change_the_connection(secrets: Secrets) -> None:
    async with serve_kept(OK) as site:
        with pytest.raises(EgressRefused, match="credential"):
            await ask(site, Request("GET", site.url()), secrets)
    assert site.requests == []


async def test_idle_connections_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.05)
    async with serve_kept(OK) as site:
        await ask(site, Request("GET", site.url()))
        await asyncio.wait_for(site.closed.wait(), 2)
        kept = await connections.kept()
        assert (kept.idle, kept.by_key, kept.turns) == ({}, {}, {})


def test_connections_close_with_their_event_loop() -> None:
    async def once() -> KeptSite:
        async with serve_kept(OK) as site:
            await ask(site, Request("GET", site.url()))
            return site

    for _ in range(2):
        site = asyncio.run(once())
        assert site.connections == 1


async def test_connection_closes_if_an_answer_arrives_as_its_request_is_cancelled() -> None:
    requested = asyncio.Event()

    async def silent(_request: Heard, _writer: asyncio.StreamWriter) -> None:
        requested.set()
        await asyncio.Event().wait()

    async with serve_kept(silent) as site:
        loop = asyncio.get_running_loop()
        _, opened = await loop.create_connection(wire.Wire, "127.0.0.1", site.port)
        head = wire.request_head("GET", "/", [("Host", "site.test")])
        sending = asyncio.create_task(send(opened, Request("GET", site.url()), head, Progress()))
        await requested.wait()
        opened.data_received(response(b""))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert opened.transport.is_closing()


def test_request_that_begins_while_the_event_loop_ends_is_cancelled() -> None:
    """Tasks that are cancelled at the end start others, for instance to end a session at a server."""
    begun: list[asyncio.Task[bytes]] = []

    async def first(site: KeptSite) -> None:
        try:
            await ask(site, Request("GET", site.url()))
        finally:
            begun.append(asyncio.create_task(ask(site, Request("POST", site.url()))))

    async def main(site: KeptSite) -> None:
        begun.append(asyncio.create_task(first(site)))  # type: ignore[arg-type]
        await asyncio.sleep(0)

    # The system accepts the connections, and nothing answers.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asyncio.run(main(KeptSite(listening.getsockname()[1])))
        assert [task.done() for task in begun] == [True, True]
        gc.collect()  # An open connection is reported as it is collected.


async def test_proxy_receives_requests_for_public_names(settings: Any) -> None:
    nowhere = Names()
    async with serve_kept(OK) as proxy:
        settings.MCP = {**settings.MCP, "EGRESS_PROXY": f"http://127.0.0.1:{proxy.port}"}
        request, policy = Request("GET", "http://site.example/a"), proxy.policy(ports=frozenset({80}))
        for _ in range(2):
            async with exchange(request, policy, resolve=nowhere) as answer:
                assert await answer.read() == b"{}"
        with pytest.raises(EgressRefused):
            async with exchange(Request("GET", "http://10.0.0.1/"), policy, resolve=nowhere):
                pass
    assert [heard.line for heard in proxy.requests] == ["GET http://site.example/a HTTP/1.1"] * 2
    assert proxy.connections == 1
