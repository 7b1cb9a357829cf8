"""An MCP server that needs a login, with its authorization server, on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.servers.web_api import WebApi, web_api
from tests.unit.egress.sites import Heard, response

CHALLENGE = 'WWW-Authenticate: Bearer resource_metadata="{origin}/meta", scope="read write"'
TOOL = {"name": "whoami", "description": "Say who.", "inputSchema": {"type": "object", "properties": {}}}


Exchange = Callable[[dict[str, str]], tuple[int, Any]]


class LoginServer:
    """The running server. ``accounts`` maps valid access tokens to accounts.

    ``resource`` and ``metadata`` are the members that replace those of its documents. ``answers`` has an
    answer by path instead of the usual one: a status and a JSON value. ``exchange`` answers the form of a
    token exchange. ``forms`` are the forms that the token and revocation endpoints received, ``registered``
    the registrations.
    """

    def __init__(self, api: WebApi) -> None:
        self.api, self.origin = api, api.origin
        self.accounts: dict[str, str] = {}
        self.refresh: dict[str, str] = {}
        self.resource: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.answers: dict[str, tuple[int, Any]] = {}
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.authorizations: list[str] = []
        self.registered: list[dict[str, Any]] = []
        self.lifetime: int | None = 3600
        self.rotates = True
        # Scopes without which calls of tools are refused. ``granted`` maps access tokens to their scopes.
        self.demanded = ""
        self.granted: dict[str, str] = {}
        self.exchange: Exchange = _no_exchange
        # The id of the session that the server opens, or "" for none.
        self.session = ""
        self._number = 0

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def forms_at(self, path: str) -> list[dict[str, str]]:
        return [form for place, form in self.forms if place == path]

    def answer(self, heard: Heard) -> bytes:
        path = heard.line.split(" ")[1].partition("?")[0]
        if path in ("/token", "/revoke"):
            self.forms.append((path, dict(parse_qsl(heard.body.decode()))))
            self.authorizations.append(heard.header("authorization") or "")
        if path in self.answers:
            status, value = self.answers[path]
            return _json(value, status)
        if path == "/mcp":
            return self._mcp(heard)
        found = getattr(self, f"_{path.strip('/').replace('.well-known/', '').replace('-', '_')}", None)
        return _json({}, 404) if found is None else found(heard)

    def code(self, account: str) -> str:
        """Return an authorization code for an account."""
        return f"code-{account}"

    def _meta(self, _: Heard) -> bytes:
        usual = {"resource": self.url, "authorization_servers": [self.origin]}
        return _json({**usual, **self.resource})

    def _oauth_authorization_server(self, _: Heard) -> bytes:
        usual = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize?brand=x",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
        }
        said = {**usual, **self.metadata}
        return _json({name: value for name, value in said.items() if value is not None})

    def _authorize(self, heard: Heard) -> bytes:
        """Return a page with a link that allows the access."""
        asked = dict(parse_qsl(urlsplit(heard.line.split(" ")[1]).query))
        back = urlencode({"state": asked["state"], "code": self.code("browser"), "iss": self.origin})
        link = f'<a id="allow" href="{asked["redirect_uri"]}?{back.replace("&", "&amp;")}">Allow</a>'
        page = f'<!doctype html><html lang="en"><title>Log in</title><main>{link}</main></html>'
        return response(page.encode(), kind="text/html")

    def _register(self, heard: Heard) -> bytes:
        self.registered.append(json.loads(heard.body))
        return _json({**self.registered[-1], "client_id": f"client-{len(self.registered)}"}, 201)

    def _token(self, _: Heard) -> bytes:
        form = self.forms[-1][1]
        if form["grant_type"].endswith("token-exchange"):
            status, value = self.exchange(form)
            return _json(value, status)
        if form["grant_type"] == "authorization_code":
            account, _, scope = form["code"].removeprefix("code-").partition("/")
            found = self.issue(account)
            self.granted[found["access_token"]] = scope
            return _json(found)
        account = self.refresh.get(form["refresh_token"])
        if account is None:
            return _json({"error": "invalid_grant"}, 400)
        if self.rotates:
            del self.refresh[form["refresh_token"]]
        return _json(self.issue(account))

    def issue(self, account: str) -> dict[str, Any]:
        """Return new tokens of an account."""
        self._number += 1
        access, refresh = f"access-token-{account}-{self._number}", f"refresh-token-{account}-{self._number}"
        self.accounts[access], self.refresh[refresh] = account, account
        more = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return {"access_token": access, "token_type": "Bearer", "refresh_token": refresh, **more}

    def _revoke(self, _: Heard) -> bytes:
        return _json({})

    def _mcp(self, heard: Heard) -> bytes:
        account = self.accounts.get((heard.header("authorization") or "").removeprefix("Bearer "))
        if account is None:
            return response(b"{}", CHALLENGE.format(origin=self.origin), status="401 Unauthorized")
        said = json.loads(heard.body or b"{}")
        held = self.granted.get((heard.header("authorization") or "").removeprefix("Bearer "), "").split()
        if said.get("method") == "tools/call" and not {*self.demanded.split()} <= {*held}:
            more = f'WWW-Authenticate: Bearer error="insufficient_scope", scope="{self.demanded}"'
            return response(b"{}", more, status="403 Forbidden")
        if "id" not in said:
            return response(b"", status="202 Accepted")
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "login", "version": "1"},
            },
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": account}]},
        }
        session = [f"Mcp-Session-Id: {self.session}"] * bool(self.session)
        return _json({"jsonrpc": "2.0", "id": said["id"], "result": results[said["method"]]}, 200, *session)


def _no_exchange(_: dict[str, str]) -> tuple[int, Any]:
    return 400, {"error": "unsupported_grant_type"}


def _json(value: Any, status: int = 200, *headers: str) -> bytes:
    words = {200: "OK", 201: "Created"}.get(status, "Error")
    return response(json.dumps(value).encode(), *headers, status=f"{status} {words}")


@contextmanager
def login_server() -> Iterator[LoginServer]:
    """Run the server until the end of the block."""
    with web_api() as api:
        found = LoginServer(api)
        api.answer = found.answer
        yield found
