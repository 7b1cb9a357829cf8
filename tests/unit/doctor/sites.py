"""A web server that plays the public address of an installation, with planted faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HEALTHY = (200, {"status": "ok"})


@dataclass
class Site:
    """A scripted site. ``held`` blocks event streams until set; ``seen`` lists received methods."""

    health: tuple[int, object] = HEALTHY
    readiness: tuple[int, object] = HEALTHY
    refuses_own_host: bool = False
    refuses_own_origin: bool = False
    lets_hosts_in: bool = False
    hangs_up_on_strangers: bool = False
    lets_origins_in: bool = False
    greets: int = 200
    held: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    seen: list[str] = field(default_factory=list)
    url: str = ""


class SiteServer(ThreadingHTTPServer):
    """A server of one site."""

    site: Site


class Handler(BaseHTTPRequestHandler):
    """A handler that answers as the site of its server prescribes."""

    server: SiteServer

    @property
    def site(self) -> Site:
        return self.server.site

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.site.seen.append("GET")
        if self.path == "/healthz":
            self.answer(*self.site.health)
        elif self.path == "/readyz":
            self.answer(*self.site.readiness)
        elif "Mcp-Session-Id" in self.headers:
            self.stream()
        else:
            self.gate()

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.site.seen.append(message["method"])
        self.answer(self.site.greets if "id" in message else 202, {}, ("Mcp-Session-Id", "s"))

    def do_DELETE(self) -> None:
        self.site.seen.append("DELETE")
        self.answer(204, {})

    def gate(self) -> None:
        own = self.headers["Host"] == self.site.url.removeprefix("http://")
        if not own and self.site.hangs_up_on_strangers:
            self.close_connection = True
            return
        if self.site.refuses_own_host if own else not self.site.lets_hosts_in:
            self.answer(421, {"error": "host"})
        elif self.is_bad_origin():
            self.answer(403, {"error": "origin"})
        else:
            self.answer(400, {"error": "session"})

    def is_bad_origin(self) -> bool:
        origin = self.headers["Origin"]
        if origin is None:
            return False
        return self.site.refuses_own_origin if origin == self.site.url else not self.site.lets_origins_in

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if self.site.held:
            self.site.released.wait(20)
        self.wfile.write(b": keep-alive\n\n")

    def answer(self, status: int, content: object, *headers: tuple[str, str]) -> None:
        body = b"" if status == 204 else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    """Serve until the context ends; set ``site.url``."""
    with SiteServer(("127.0.0.1", 0), Handler) as server:
        server.site = site
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield site
        finally:
            site.released.set()
            server.shutdown()
            thread.join()
