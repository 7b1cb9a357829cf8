"""Tokens of callers are exchanged in web processes and workers, without a mix-up of callers (RFC 8693)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import jwt
import pytest
import redis

from mcp_app.streams.connections.keys import shared_key
from tests.integration.oauth.test_doors import asked
from tests.servers.identity_provider import IdentityProvider, private_key
from tests.servers.live import LiveServer, eventually
from tests.servers.login_server import LoginServer, login_server

pytestmark = [pytest.mark.process]
AUDIENCE = "api://tools"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"
ADD = """
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.credentials.services import save_credential
from mcp_app.models import Tool
origin = {origin!r}
secret = dict(client_id="ours", client_secret="s3cret-of-the-client")
save_credential(actor=None, name="lists", kind="bearer", origins=[origin], secret=dict(token={lists!r}))
where = dict(origins=[origin], token_url=origin + "/token")
save_credential(actor=None, name="sts", kind="token_exchange", secret=secret, **where)
for name in ("crm", "later"):
    row = storing.save_upstream(
        actor=None, name=name, url=origin + "/mcp", era="legacy", credential="lists", token_exchange="sts"
    )
    refreshing.refresh(upstream=row, actor=None)
    row.refresh_from_db()
    done = importing.import_items(upstream=row, keys=["whoami"], actor=None, publish=True)
    assert not done.skipped, done.skipped
services.update_entry(entry=Tool.objects.get(name="later_whoami"), actor=None, background=True)
"""
LAST_CALL = """
from mcp_app.models import Call
for call in Call.objects.order_by("-accepted_at")[:1]:
    print(call.id, call.tool, call.state, call.answer)
"""
LISTS = "s3cret-of-the-lists"
USERS = [f"person-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        yield running


@pytest.fixture(scope="module")
def site(provider: IdentityProvider) -> Iterator[LoginServer]:
    """Start a server whose authorization server trusts the identity provider."""
    with login_server() as found:
        found.accounts[LISTS] = "lists"

        def exchange(form: dict[str, str]) -> tuple[int, Any]:
            try:
                key = private_key("rsa").public_key()
                claims = jwt.decode(form["subject_token"], key, algorithms=["RS256"], audience=AUDIENCE)
            except jwt.PyJWTError:
                return 400, {"error": "invalid_request"}
            return 200, {**found.issue(claims["sub"]), "issued_token_type": ACCESS}

        found.exchange = exchange
        yield found


@pytest.fixture(scope="module")
def live(provider: IdentityProvider, site: LoginServer) -> Iterator[LiveServer]:
    env = {
        "MCP_AUTH": "external",
        "OAUTH_ISSUER": provider.issuer,
        "OAUTH_AUDIENCE": AUDIENCE,
        "EGRESS_ALLOW": "127.0.0.0/8",
        "DEMO": "off",
    }
    with LiveServer(2, worker=True, env=env) as server:
        server.shell(ADD.format(origin=site.origin, lists=LISTS))
        token = provider.token(aud=AUDIENCE, sub="first")
        eventually(lambda: "later_whoami" in asked(server, "tools/list", token).text, what="the new tools")
        yield server


def whoami(live: LiveServer, token: str, tool: str) -> str:
    answer = asked(live, "tools/call", token, name=tool, arguments={})
    return next(name for name in [*USERS, "expired", "REFUSED"] if name in answer.text or name == "REFUSED")


@pytest.mark.requirement("INT-61", "INT-72")
def test_each_caller_has_the_own_account_in_web_processes_and_workers(
    live: LiveServer, provider: IdentityProvider, site: LoginServer
) -> None:
    tokens = {user: provider.token(aud=AUDIENCE, sub=user) for user in USERS}
    calls = [(user, tool) for user in USERS for tool in ("crm_whoami", "later_whoami")] * 3
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda call: whoami(live, tokens[call[0]], call[1]), calls))
    assert found == [user for user, _ in calls]
    # One token serves all processes.
    subjects = [form["subject_token"] for form in site.forms_at("/token")]
    assert sorted(subjects) == sorted(tokens.values())
    sent = [heard.header("authorization") or "" for heard in site.api.requests if "/mcp" in heard.line]
    assert not [each for each in sent if any(token in each for token in tokens.values())]
    _assert_no_token_is_readable(live, tokens["person-0"], *site.accounts)


def _assert_no_token_is_readable(live: LiveServer, *tokens: str) -> None:
    """Check the log, the database and every value in Redis."""
    shown = live.logs().encode()
    for file in (live.folder / "data").glob("db.sqlite3*"):
        shown += file.read_bytes()
    with redis.Redis.from_url(live.redis.url, protocol=2) as client:
        client.config_set("rdbcompression", "no")
        for key in client.scan_iter():
            shown += client.dump(key) or b""
    assert b"later_whoami" in shown
    assert not [token for token in tokens if token.encode() in shown]


def test_login_that_expires_before_a_background_call_starts_is_named(
    live: LiveServer, provider: IdentityProvider
) -> None:
    (worker,) = live.worker_processes
    worker.stop()
    # The server accepts a token for a minute after its expiry.
    token = provider.token(aud=AUDIENCE, sub="late", exp=int(time.time()) - 60 + 15)
    call = "tools/call", {"name": "later_whoami", "arguments": {}}
    with closing(live.mcp(token=token)) as client:
        client.initialize()
        with client.open_call(*call):
            eventually(lambda: "later_whoami accepted" in live.shell(LAST_CALL), what="the call")
            key = shared_key(f"caller-token/{live.shell(LAST_CALL).split()[0]}")
            with redis.Redis.from_url(live.redis.url, protocol=2) as store:
                assert store.pttl(key) > 0
                eventually(lambda: not store.exists(key), seconds=30, what="the expiry of the token")
            worker.start(live.environment)
            told = partial(live.shell, LAST_CALL)
            eventually(lambda: "Log in again" in told(), seconds=30, what="the answer of the worker")
