"""The requests to the bridge: Streamable HTTP for each command, and the state of all commands."""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from mcp_app import sealing
from mcp_app.bridge import usage
from mcp_app.bridge.conversation import Conversation, RequestRefused
from mcp_app.bridge.guarding import Guard
from mcp_app.bridge.http import MAX_HEAD_BYTES, Answer, Request, serve_connection
from mcp_app.bridge.pool import Pool, Unavailable
from mcp_app.bridge.stream import ProcessGone, Stream
from mcp_app.conf import Settings
from mcp_app.protocol.messages import jsonrpc
from mcp_app.upstream_commands import STATUS_URL, TOKEN_PURPOSE

# The time for the answer to the first request. Some servers of the legacy era never answer it.
PROBE_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 15.0
SWEEP_SECONDS: Final = 1.0
_SESSION: Final = "mcp-session-id"
_STATUS_PATH: Final = urlsplit(STATUS_URL).path
_NO_ANSWER: Final = -32601
_UNAVAILABLE: Final = -32000


class SocketInUse(Exception):
    """Raised if another bridge serves the socket."""


class Bridge:
    """The commands of the settings, and the HTTP server for them."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.upstream_socket
        self._token = f"Bearer {sealing.token(settings, TOKEN_PURPOSE)}"
        self._guard = Guard()
        self._pools = {
            command.path: Pool(command, self._guard, settings.redacted_names)
            for command in settings.upstream_commands.values()
        }
        self._connections: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event, on_tick: Callable[[], None] = lambda: None) -> None:
        """Serve until ``stop`` is set. ``on_tick`` is called once a second. Raise SocketInUse."""
        listening = _listening(self._path)
        server = await asyncio.start_unix_server(self._connected, sock=listening, limit=MAX_HEAD_BYTES)
        try:
            while not stop.is_set():
                on_tick()
                is_used = any(pool.has_processes for pool in self._pools.values())
                self.sweep(await asyncio.to_thread(usage.measured) if is_used else {})
                with suppress(TimeoutError):
                    async with asyncio.timeout(SWEEP_SECONDS):
                        await stop.wait()
        finally:
            server.close()
            await asyncio.to_thread(Path(self._path).unlink, missing_ok=True)
            await self.close()

    async def close(self) -> None:
        """Stop all processes and connections."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._guard.close()

    def sweep(self, measured: dict[int, tuple[int, int]]) -> None:
        """Stop idle processes, and kill those above their limits."""
        for pool in self._pools.values():
            pool.sweep(measured)

    async def handle(self, request: Request, answer: Answer) -> None:
        """Answer a request."""
        if request.path == _STATUS_PATH and request.method == "GET":
            status = {pool.command.name: pool.status() for pool in self._pools.values()}
            await answer.send(200, orjson.dumps(status))
            return
        pool = self._pools.get(request.path)
        if pool is None:
            await _refuse(answer, 502, None, "The bridge does not know its command. Restart the bridge.")
        elif request.method == "DELETE":
            await answer.send(204 if pool.end(request.headers.get(_SESSION, "")) else 404)
        elif request.method != "POST":
            await answer.send(405)
        else:
            await self._post(pool, request, answer)

    async def _post(self, pool: Pool, request: Request, answer: Answer) -> None:
        message = _json(request.body)
        session = request.headers.get(_SESSION)
        conversation = None if session is None else pool.session(session)
        if not isinstance(message, dict):
            await answer.send(400)
            return
        if session is not None and conversation is None:
            await answer.send(404)
            return
        number = message.get("id")
        try:
            if isinstance(number, str | int) and "method" in message:
                await _requested(pool, conversation, message, request.body, answer)
                return
            # Requests without a session are cancelled by the end of their connection.
            if conversation is not None and "method" in message:
                await conversation.notify(message["method"], message.get("params"), request.body)
            elif conversation is not None:
                await conversation.answer(number, request.body)
            await answer.send(202)
        except Unavailable as error:
            await _refuse(answer, 503, number, str(error))
        except RequestRefused as error:
            await _refuse(answer, 400, number, str(error))
        except ProcessGone as error:
            # An answer that has begun is broken off.
            if not answer.is_started:
                await _refuse(answer, 502 if error.was_sent else 503, number, f"Its process: {error}")

    def _admits(self, headers: dict[str, str]) -> bool:
        return hmac.compare_digest(headers.get("authorization", "").encode(), self._token.encode())

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # A cancelled connection would be reported as an error.
        with suppress(asyncio.CancelledError):
            await serve_connection(self._admits, self.handle, reader, writer)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


async def _requested(
    pool: Pool, conversation: Conversation | None, message: dict[str, Any], body: bytes, answer: Answer
) -> None:
    number = message["id"]
    if conversation is None and message["method"] == "initialize":
        await _initialize(pool, number, body, answer)
    elif conversation is None and message["method"] == "server/discover":
        await _probe(pool, number, body, answer)
    else:
        if conversation is None:
            conversation = await pool.shared()
            conversation.is_stateless = True
        await _relay(conversation, number, body, answer)


async def _relay(conversation: Conversation, number: jsonrpc.Id, body: bytes, answer: Answer) -> None:
    """Send a request, and its messages and its answer to the caller."""
    stream = await conversation.request(number, body)
    try:
        message = await stream.next()
        if stream.is_finished():
            await answer.send(200, message)
            return
        await answer.event(message)
        while not stream.is_finished():
            following = await _next(stream, answer)
            await answer.event(following)
        await answer.end()
    finally:
        await _left(conversation, number, stream)


async def _next(stream: Stream, answer: Answer) -> bytes:
    """Return the next message. Send comments while there is none."""
    waiting = asyncio.get_running_loop().create_task(stream.next())
    try:
        while True:
            done, _ = await asyncio.wait([waiting], timeout=KEEP_ALIVE_SECONDS)
            if done:
                return waiting.result()
            await answer.comment()
    finally:
        waiting.cancel()


async def _initialize(pool: Pool, number: jsonrpc.Id, body: bytes, answer: Answer) -> None:
    """Open a session with the spare process, or with a new one."""
    spare = pool.take_spare()
    if spare is not None:
        try:
            await _open(pool, spare, number, body, answer)
        except ProcessGone:
            # A process that starts slowly reads the first request only now. Some servers of the legacy era
            # end at it.
            if spare.has_answered:
                raise
        else:
            return
    await _open(pool, await pool.unused(), number, body, answer)


async def _open(
    pool: Pool, conversation: Conversation, number: jsonrpc.Id, body: bytes, answer: Answer
) -> None:
    """Open a session with a process. The process ends if the handshake fails."""
    is_open = False
    try:
        found = await _answer_to(conversation, number, body)
        if isinstance(orjson.loads(found).get("result"), dict):
            session, is_open = pool.keep(conversation), True
            await answer.send(200, found, (("Mcp-Session-Id", session),))
        else:
            await answer.send(200, found)
    finally:
        if not is_open:
            pool.discard(conversation, "Its handshake failed.")


async def _probe(pool: Pool, number: jsonrpc.Id, body: bytes, answer: Answer) -> None:
    """Ask a process whether it serves requests without a session. A process that does not waits for one."""
    conversation = await pool.shared()
    try:
        async with asyncio.timeout(PROBE_SECONDS) as limit:
            found = await _answer_to(conversation, number, body)
        if isinstance(orjson.loads(found).get("result"), dict):
            conversation.is_stateless = True
        await answer.send(200, found)
    except TimeoutError:
        if not limit.expired():
            raise
        # A process that answered before is busy, which must not pass for the legacy era.
        status = 503 if conversation.is_stateless else 504
        await _refuse(answer, status, number, "The server did not answer server/discover in time.")
    except ProcessGone:
        text = "The server ended at server/discover."
        if conversation.is_stateless:
            await _refuse(answer, 503, number, text)
        else:
            # Some servers of the legacy era end at an unknown request.
            await _refuse(answer, 200, number, text, _NO_ANSWER)
    finally:
        if not conversation.is_stateless:
            pool.spare(conversation)


async def _answer_to(conversation: Conversation, number: jsonrpc.Id, body: bytes) -> bytes:
    stream = await conversation.request(number, body)
    try:
        while True:
            message = await stream.next()
            if stream.is_finished():
                return message
    finally:
        await _left(conversation, number, stream)


async def _left(conversation: Conversation, number: jsonrpc.Id, stream: Stream) -> None:
    # The request may be cancelled now, and the process has to be told nevertheless.
    task = asyncio.get_running_loop().create_task(conversation.leave(number, stream))
    _leaving.add(task)
    task.add_done_callback(_leaving.discard)


_leaving: set[asyncio.Task[None]] = set()


async def _refuse(answer: Answer, status: int, number: Any, text: str, code: int = _UNAVAILABLE) -> None:
    error = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
    await answer.send(status, orjson.dumps(error))


def _listening(path: str) -> socket.socket:
    """Return the socket of the bridge, which only this user can open. Raise SocketInUse."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.connect(path)
        raise SocketInUse(f"Another bridge serves {path}.")
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(path).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # From its first moment on, nobody else may open the socket.
    before = os.umask(0o177)
    try:
        listening.bind(path)
    finally:
        os.umask(before)
    listening.listen(128)
    return listening


async def serve(settings: Settings, on_tick: Callable[[], None] = lambda: None) -> None:
    """Run the bridge until SIGTERM or SIGINT. Raise SocketInUse."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, partial(stop.set))
    await Bridge(settings).run(stop, on_tick)
