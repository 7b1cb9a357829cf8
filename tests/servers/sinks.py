"""Servers on loopback: two record notifications (mail and POSTs), one serves a page."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Mailbox:
    """The mails a server received. While ``frozen``, it accepts connections but sends nothing."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    connections: int = 0
    thaw: threading.Event = field(default_factory=threading.Event)

    @property
    def texts(self) -> list[str]:
        """Subject and body of each mail."""
        return [f"{mail['Subject']}\n{mail.get_content()}" for mail in self.mails]


@contextmanager
def mail_server(*, frozen: bool = False) -> Iterator[Mailbox]:
    """Run a minimal SMTP server."""
    box = Mailbox()
    if not frozen:
        box.thaw.set()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            box.connections += 1
            box.thaw.wait()
            self.wfile.write(b"220 sink\r\n")
            for line in self.rfile:
                verb = line[:4].upper()
                if verb == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    self._take()
                self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 fine\r\n")
                if verb == b"QUIT":
                    return

        def _take(self) -> None:
            lines = []
            for line in self.rfile:
                if line == b".\r\n":
                    break
                lines.append(line.removeprefix(b"."))
            message: Any = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
            box.mails.append(message)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        box.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield box
        finally:
            box.thaw.set()
            server.shutdown()


@dataclass
class Posts:
    """The headers and body of each request a server received; ``status`` is the status it returns."""

    url: str = ""
    status: int = 204
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def web_server() -> Iterator[Posts]:
    """Run a server that accepts any POST."""
    posts = Posts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(posts.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        posts.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield posts
        finally:
            server.shutdown()


@contextmanager
def page_server(page: bytes) -> Iterator[str]:
    """Run a server that serves one page at every path and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
