"""A proxy in front of two web processes: GETs go to the first, all other requests to the second."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

CHUNK = 65_536


class Split:
    """``with Split(a, b) as port``: posts and streams are served by different processes."""

    def __init__(self, gets: int, posts: int) -> None:
        self._ports = {True: gets, False: posts}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> int:
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)

    async def _open(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ends, pumps = [writer], []
        try:
            first = await reader.read(CHUNK)
            port = self._ports[first.startswith(b"GET ")]
            onward, back = await asyncio.open_connection("127.0.0.1", port)
            ends.append(back)
            back.write(first)
            pumps = [asyncio.create_task(_pump(reader, back)), asyncio.create_task(_pump(onward, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The loop ends now, with unread data.
            for end in ends:
                end.transport.abort()
            raise
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in ends:
                end.close()

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        target.write(data)
        await target.drain()
