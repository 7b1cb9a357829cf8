"""Count the work of a call of another server's tool: ``python -m benchmarks.relay.work``.

The other server is one of the official SDK in another process. The counts are those of
``benchmarks.limits.work``, for each era of the protocol.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.hops.__main__ import Web, connect_threads, installation
from benchmarks.limits.work import Counter, apply
from benchmarks.processes import Process, free_port, uvicorn
from benchmarks.relay.run import ADD, ERAS


@contextmanager
def other_server() -> Iterator[str]:
    """Run the other server. Yield its URL."""
    with tempfile.TemporaryDirectory(prefix="relay-") as folder:
        port = free_port()
        command = uvicorn("benchmarks.sdk_server:application", port)
        process = Process(command, Path(folder, "server.log"), {}, None)
        process.start()
        try:
            process.wait_for_port(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.stop()


def main() -> None:
    """Print the counts of each era."""
    os.environ["EGRESS_ALLOW"] = "127.0.0.0/8"
    counter = Counter()
    with other_server() as url, installation(counter):
        web = Web()
        web.start()
        try:
            connect_threads()
            apply(web, ADD.format(url=url, eras=ERAS))
            for era in ERAS:

                def call(tool: str = f"{era}_echo") -> None:
                    _, body = web.post(web.call(tool, text="hello"))
                    assert b"hello" in body, body

                work = counter.least(call, lambda: None)
                print(
                    era, " ".join(f"{number} {kind}" for kind, number in work._asdict().items()), flush=True
                )
        finally:
            web.close()
            threading.setprofile(None)
            sys.setprofile(None)


if __name__ == "__main__":
    main()
