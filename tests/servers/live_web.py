"""One web process of a LiveServer: the project's web process on inherited sockets."""

from __future__ import annotations

import socket
import sys

from mcpsite import environment, web
from tests import wire


def main(descriptors: list[str]) -> None:
    """Serve the inherited listening sockets until SIGTERM."""
    wire.record_if_asked()
    sockets = [socket.socket(fileno=int(number)) for number in descriptors]
    for listening in sockets:
        listening.setblocking(False)
    web.Server(web.configuration(environment.read())).run(sockets)


if __name__ == "__main__":
    main(sys.argv[1:])
