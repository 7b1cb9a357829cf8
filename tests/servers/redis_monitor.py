"""The commands that a Redis server receives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from tests.bounds import PATIENCE


@contextmanager
def monitored(url: str, take: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    """Pass each command that Redis receives inside the block to ``take``, in a thread."""
    # A busy machine may send nothing for longer than the usual timeout of a socket.
    with redis.Redis.from_url(url, socket_timeout=PATIENCE) as client, client.monitor() as monitor:

        def read() -> None:
            while (command := monitor.next_command())["command"] != "ECHO enough":
                take(command)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        try:
            yield
        finally:
            client.echo("enough")
            reading.join(PATIENCE)
