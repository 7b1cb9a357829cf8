"""Access by token, and the challenges of each endpoint."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils import timezone

from mcp_app import servers
from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.challenges import check_scopes, insufficient
from mcp_app.auth.own_addresses import SERVER_METADATA, canonical
from mcp_app.auth.principal import Principal
from mcp_app.oauth import upkeep
from mcp_app.oauth.connections import end, find_principal
from mcp_app.oauth.models import AccessToken, Client, Connection
from mcp_app.protocol import scopes
from mcp_app.protocol.errors import Forbidden, Unauthorized
from mcp_app.protocol.messages.jsonrpc import Request
from mcp_app.protocol.messages.server import Server
from tests.unit.mcpsite.test_bodies import Exchanged
from tests.unit.oauth.flow import BASE, Program

METADATA = f"{BASE}/.well-known/oauth-protected-resource/mcp"


@pytest.mark.requirement("AUTH-11")
@pytest.mark.parametrize(
    ("held", "wanted", "is_enough"),
    [
        ("mcp", "mcp", True),
        ("mcp", "mcp:tools", False),
        ("mcp:tools", "mcp", True),
        ("mcp:tools", "mcp:resources", False),
        ("mcp:admin", "mcp", True),
        ("mcp:admin", "mcp:tools", True),
        ("mcp:admin", "mcp:prompts", True),
        ("mcp mcp:tools mcp:resources mcp:prompts", "mcp:admin", False),
    ],
)
def test_broader_scope_includes_narrower_one(held: str, wanted: str, is_enough: bool) -> None:
    assert (wanted in scopes.widened(held.split())) == is_enough


@pytest.mark.requirement("AUTH-50")
@pytest.mark.parametrize(
    ("method", "params", "scope"),
    [
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}, "mcp:prompts"),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "x"}}, "mcp:resources"),
        ("completion/complete", {"ref": {"type": ["ref/prompt"]}}, "mcp"),
        ("completion/complete", {"ref": "ref/prompt"}, "mcp"),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "mcp"),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a://b"]}}, "mcp:resources"),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": []}}, "mcp"),
        ("subscriptions/listen", {"notifications": 7}, "mcp"),
        ("subscriptions/listen", {}, "mcp"),
        ("tools/call", {"name": "x"}, "mcp:tools"),
        ("acme/own", {}, "mcp:tools"),
    ],
)
def test_request_parameters_determine_scope_of_generic_methods(
    method: str, params: dict[str, Any], scope: str
) -> None:
    assert scopes.needed(method, params) == scope
    held = Principal("k", "n", frozenset(), scopes=frozenset({"mcp"}))
    if scope == "mcp":
        check_scopes(held, Request(1, method, params))
    else:
        with pytest.raises(Forbidden):
            check_scopes(held, Request(1, method, params))


@pytest.mark.requirement("AUTH-09", "AUTH-35")
@pytest.mark.parametrize(
    ("public", "value", "is_ours"),
    [
        ("https://mcp.example", "https://mcp.example/mcp", True),
        ("https://mcp.example", "HTTPS://MCP.example:443/mcp/", True),
        ("https://mcp.example", "https://mcp.example/sse", True),
        ("https://mcp.example", "http://mcp.example/mcp", False),
        ("https://mcp.example", "https://mcp.example:444/mcp", False),
        ("https://mcp.example", "https://mcp.example/MCP", False),
        ("https://mcp.example", "https://mcp.example/mcp//", False),
        ("https://mcp.example", "https://mcp.example", False),
        ("https://mcp.example", "https://mcp.example/mcp?x", False),
        ("https://mcp.example", "https://mcp.example/mcp#x", False),
        ("https://mcp.example", "https://mcp.example@evil.example/mcp", False),
        ("https://mcp.example", "https://mcp.example.evil.example/mcp", False),
        ("https://mcp.example", "https://localhost/mcp", False),
        ("http://127.0.0.1:8000", "http://localhost:8000/mcp", True),
        ("http://127.0.0.1:8000", "http://[::1]:8000/mcp", True),
        ("http://127.0.0.1:8000", "http://localhost:8001/mcp", False),
        ("http://127.0.0.1:8000", "http://localhost:99999/mcp", False),
        ("http://127.0.0.1:8000", "", False),
    ],
)
def test_resource_is_recognised_in_any_spelling(
    settings: Any, public: str, value: str, is_ours: bool
) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": public}
    assert canonical(value) == (f"{public}/mcp" if is_ours else "")


def parsed(challenge: str) -> dict[str, str]:
    """Parse a challenge as clients do: split at commas outside quotes."""
    assert challenge.startswith("Bearer ")
    return dict(re.findall(r'([a-z_]+)="([^"]*)"', challenge))


@pytest.mark.requirement("AUTH-03", "AUTH-04")
async def test_401_challenge_names_metadata_and_basic_scopes() -> None:
    with pytest.raises(Unauthorized) as refused:
        await Authenticator("required").authenticate(None, local=False, metadata=METADATA)
    told = parsed(dict(refused.value.headers)[b"www-authenticate"].decode())
    assert told == {"realm": "mcp", "resource_metadata": METADATA, "scope": " ".join(scopes.BASIC)}


@pytest.mark.requirement("AUTH-10", "AUTH-13")
def test_403_challenge_names_all_scopes_to_request() -> None:
    principal = Principal("k", "n", frozenset(), scopes=scopes.widened(["mcp:resources"]))
    told = parsed(insufficient(principal, scopes.TOOLS, METADATA).challenge or "")
    assert told["error"] == "insufficient_scope"
    assert told["scope"] == "mcp mcp:tools mcp:resources"
    assert told["resource_metadata"] == METADATA


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
class TestTokens:
    """Tokens of real connections."""

    @pytest.mark.requirement("AUTH-50")
    def test_token_scopes_limit_permissions_of_user(self, program: Program, person: Any) -> None:
        given = Permission.objects.filter(codename__in=("view_tool", "view_user"))
        person.user_permissions.set(given)
        plain = find_principal(program.connect()["access_token"])
        admin = find_principal(program.connect(scope="mcp mcp:admin")["access_token"])
        assert plain is not None
        assert admin is not None
        assert "auth.view_user" in plain.permissions
        assert "mcp_app.view_tool" not in plain.permissions
        assert "mcp_app.view_tool" in admin.permissions
        assert "mcp_app.change_tool" not in admin.permissions

    @pytest.mark.requirement("AUTH-50")
    def test_superuser_with_plain_token_is_not_administrator(self, program: Program, person: Any) -> None:
        get_user_model().objects.filter(pk=person.pk).update(is_superuser=True)
        principal = find_principal(program.connect()["access_token"])
        assert principal is not None
        assert "shop.any_permission" in principal.permissions
        assert "mcp_app.change_tool" not in principal.permissions
        assert "mcp_oauth.change_client" not in principal.permissions

    @pytest.mark.requirement("AUTH-22")
    def test_two_clients_of_one_user_are_distinct_principals(self, program: Program) -> None:
        other = Program(program.browser, program.register(client_name="Another").json()["client_id"])
        first = find_principal(program.connect()["access_token"])
        second = find_principal(other.connect()["access_token"])
        assert first is not None
        assert second is not None
        assert first.key != second.key
        assert first.user_id == second.user_id

    async def test_forget_evicts_tokens_of_one_connection_only(self, program: Program) -> None:
        authenticator = Authenticator("required")
        headers = []
        for name in ("One", "Two"):
            made = await sync_to_async(self._connected)(program, name)
            headers.append(b"Bearer " + made.encode())
        for header in headers:
            await authenticator.authenticate(header, local=False)
        connection = await Connection.objects.select_related("user", "client").alatest("pk")
        await sync_to_async(end)(connection, "test")
        authenticator.forget({"connection": connection.pk})
        assert authenticator.known(headers[0], local=False) is not None
        assert authenticator.known(headers[1], local=False) is None
        with pytest.raises(Unauthorized):
            await authenticator.authenticate(headers[1], local=False)
        first = await Connection.objects.aearliest("pk")
        for told in ({"user": connection.user_id}, {"connections": [connection.pk, first.pk]}):
            await authenticator.authenticate(headers[0], local=False)
            authenticator.forget({"connections": [connection.pk + 1]})
            assert authenticator.known(headers[0], local=False) is not None
            authenticator.forget(told)
            assert authenticator.known(headers[0], local=False) is None

    @pytest.mark.requirement("AUTH-07", "AUTH-35")
    async def test_token_of_further_server_opens_that_server_only(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A wrong path neither counts as a wrong key nor spoils the token for its own server."""
        toys = {"/mcp/toy": Server("toy", "1", path="/mcp/toy")}
        monkeypatch.setattr(servers, "_providers", [lambda: toys])
        paths = {"/mcp/toy": f"{BASE}/mcp/toy/", "/mcp": f"{BASE}/mcp"}
        authenticator = Authenticator("required", wrong_keys_per_minute=1)
        for path, resource in paths.items():
            token = (await sync_to_async(program.connect)(resource=resource, scope="mcp:admin"))[
                "access_token"
            ]
            header = b"Bearer " + token.encode()
            for _ in range(2):
                for other in paths.keys() - {path}:
                    assert authenticator.known(header, local=False, path=other) is None
                    with pytest.raises(Unauthorized):
                        await authenticator.authenticate(header, local=False, path=other)
                principal = await authenticator.authenticate(header, local=False, path=path)
                assert principal.audience == BASE + path
            answer = await sync_to_async(program.wire.get)(
                "/api/", headers={"Authorization": f"Bearer {token}"}
            )
            assert (answer.status_code == 401) is (path != "/mcp")
        token = (await sync_to_async(program.connect)(resource=f"{BASE}/mcp/toy"))["access_token"]
        toys.clear()
        assert await sync_to_async(find_principal)(token) is None

    @pytest.mark.requirement("AUTH-35")
    def test_authorization_server_is_found_from_every_door_and_no_other(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        toys = {"/mcp/toy": Server("toy", "1", path="/mcp/toy")}
        monkeypatch.setattr(servers, "_providers", [lambda: toys])
        for known in SERVER_METADATA:
            for door, status in (
                ("/mcp", 200),
                ("/sse", 200),
                ("/mcp/toy", 200),
                ("/mcp/no", 404),
                ("/o", 404),
            ):
                for address in (known + door, door + known):
                    assert program.wire.get(address).status_code == status, address

    @staticmethod
    def _connected(program: Program, name: str) -> str:
        known = program.register(client_name=name).json()["client_id"]
        return str(Program(program.browser, known).connect()["access_token"])

    @pytest.mark.requirement("AUTH-03", "AUTH-07")
    async def test_cached_token_expires_at_its_expiry_time(self, program: Program) -> None:
        token = (await sync_to_async(program.connect)())["access_token"]
        header = b"Bearer " + token.encode()
        authenticator = Authenticator("required")
        ends = timezone.now() + timedelta(seconds=0.5)
        await AccessToken.objects.aupdate(expires_at=ends)
        principal = await authenticator.authenticate(header, local=False)
        assert principal.expires_at is not None
        while time.time() < principal.expires_at:
            assert authenticator.known(header, local=False) in (principal, None)
        assert authenticator.known(header, local=False) is None

    async def test_valid_token_raises_body_limit_of_api(self, program: Program) -> None:
        token = (await sync_to_async(program.connect)())["access_token"]
        size = 1024 * 1024
        for held, status in ((token, 200), (token[:-1], 413)):
            headers = {b"content-length": b"%d" % size, b"authorization": b"Bearer " + held.encode()}
            found = await Exchanged("/api/calls/", [b" " * size], headers).run()
            assert found.status == status

    @pytest.mark.parametrize("path", ["/api/tools/", "/api/"])
    @pytest.mark.requirement("AUTH-10")
    def test_api_requires_token_with_admin_scope(self, program: Program, person: Any, path: str) -> None:
        get_user_model().objects.filter(pk=person.pk).update(is_superuser=True)
        plain, admin = program.connect(), program.connect(scope="mcp:admin")
        answers = [
            program.wire.get(path, headers={"Authorization": f"Bearer {tokens['access_token']}"})
            for tokens in (plain, admin)
        ]
        assert [answer.status_code for answer in answers] == [403, 200]
        assert parsed(answers[0]["WWW-Authenticate"])["scope"].endswith("mcp:admin")

    def test_expired_rows_are_purged_after_retention(self, program: Program) -> None:
        program.connect()
        upkeep.purge()
        assert Connection.objects.count() == 1
        assert Client.objects.count() == 1
        program.register(client_name="Never used")
        Client.objects.filter(name="Never used").update(
            created=timezone.now() - timedelta(days=2), updated=timezone.now() - timedelta(days=2)
        )
        Connection.objects.update(ends_at=timezone.now() - timedelta(days=40))
        upkeep.purge()
        assert not Connection.objects.exists()
        assert not AccessToken.objects.exists()
        assert [client.name for client in Client.objects.all()] == ["Test client"]
