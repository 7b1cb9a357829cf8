"""An identity provider on this machine: a real HTTP server with its own keys and freely chosen tokens."""

from __future__ import annotations

import json
import threading
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

AUDIENCE = "http://127.0.0.1:8000/mcp"
ALL_SCOPES = "mcp mcp:tools mcp:resources mcp:prompts"
# The constructor of each kind of key, and the algorithm used with it here.
KINDS: dict[str, tuple[Any, str]] = {
    "rsa": (lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256"),
    "short": (lambda: rsa.generate_private_key(public_exponent=65537, key_size=1024), "RS256"),
    "p256": (lambda: ec.generate_private_key(ec.SECP256R1()), "ES256"),
    "p384": (lambda: ec.generate_private_key(ec.SECP384R1()), "ES384"),
    "p521": (lambda: ec.generate_private_key(ec.SECP521R1()), "ES512"),
    "ed25519": (ed25519.Ed25519PrivateKey.generate, "EdDSA"),
}


@cache
def private_key(name: str) -> Any:
    """Return the key with a name; ``rsa`` and ``rsa-2`` are two keys of one kind."""
    return KINDS[name.partition("-")[0]][0]()


def algorithm_of(name: str) -> str:
    """Return the default signing algorithm of the key with that name."""
    return KINDS[name.partition("-")[0]][1]


def public_jwk(name: str, **members: Any) -> dict[str, Any]:
    """Return the key as a provider publishes it; its ``kid`` is its name."""
    algorithm = jwt.get_algorithm_by_name(algorithm_of(name))
    said = json.loads(algorithm.to_jwk(private_key(name).public_key()))
    said.pop("key_ops", None)
    return {**said, "kid": name, "use": "sig", **members}


class IdentityProvider:
    """A provider that serves its metadata and keys inside the ``with`` block.

    ``asked`` has the paths of all requests. ``away`` answers 503 to every request; while ``open_gate``
    is cleared, every request blocks.
    """

    def __init__(self, path: str = "") -> None:
        self.published: list[dict[str, Any]] = [public_jwk("rsa")]
        self.metadata: dict[str, Any] = {}
        self.metadata_path = f"{path}/.well-known/openid-configuration"
        self.raw: bytes | None = None
        self.asked: list[str] = []
        # Further responses by path, and the headers and form data received there.
        self.answers: dict[str, tuple[int, Any]] = {}
        self.sent: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.away = False
        self.open_gate = threading.Event()
        self.open_gate.set()
        self._path = path
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.answer(self)

            def do_POST(self) -> None:
                provider.answer(self)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{self._path}"

    @property
    def jwks_url(self) -> str:
        return f"{self.issuer}/keys"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open_gate.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.asked.append(path)
        self.open_gate.wait(30)
        status, said = self.answers.get(path, (404, None))
        if path in self.answers:
            form = request.rfile.read(int(request.headers.get("Content-Length", 0))).decode()
            self.sent.append((path, dict(request.headers), dict(parse_qsl(form))))
        if path == self.metadata_path:
            status, said = 200, {"issuer": self.issuer, "jwks_uri": self.jwks_url, **self.metadata}
        elif path == f"{self._path}/keys":
            status, said = 200, {"keys": self.published}
        body = json.dumps(said).encode() if self.raw is None else self.raw
        request.send_response(503 if self.away else status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return the claims of a valid token. A claim changed to None is omitted."""
        now = int(time.time())
        said = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "person-1",
            "iat": now,
            "exp": now + 300,
            "scope": ALL_SCOPES,
            "client_id": "editor",
            "preferred_username": "grace",
            **changed,
        }
        return {name: value for name, value in said.items() if value is not None}

    def token(
        self, key: str = "rsa", algorithm: str = "", header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """Return a token signed with the key of that name. A header member of None is omitted."""
        members = {"typ": "at+jwt", "kid": key, **(header or {})}
        typ = members["typ"]
        kept = {name: value for name, value in members.items() if value is not None}
        # The library adds a type unless it is empty.
        kept["typ"] = "" if typ is None else typ
        return jwt.encode(
            self.claims(**claims), private_key(key), algorithm or algorithm_of(key), headers=kept
        )
