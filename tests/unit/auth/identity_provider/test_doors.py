"""Discovery of an identity provider at every endpoint, and its effect on local credentials."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.test import Client as Browser

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.challenges import insufficient
from mcp_app.auth.identity_provider.provider import find_principal
from mcp_app.auth.own_addresses import requested
from mcp_app.protocol import scopes
from mcp_app.protocol.errors import Unauthorized
from mcp_app.transports.resource_metadata import resource_metadata
from tests.servers.identity_provider import IdentityProvider
from tests.unit.mcpsite.test_bodies import Exchanged

pytestmark = [pytest.mark.django_db(transaction=True)]
HOST = "127.0.0.1:8000"


@pytest.fixture(autouse=True)
def _external(external: Any) -> None:
    """Accept tokens under the host name of the test clients."""
    external(ALLOWED_HOSTS=[HOST])


async def document(path: str = "/.well-known/oauth-protected-resource/mcp") -> tuple[int, dict[str, Any]]:
    """Return the status and body of the protected resource metadata."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"method": "GET", "path": path, "headers": [(b"host", HOST.encode())]}
    await resource_metadata(scope, None, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.requirement("AUTH-01", "AUTH-02")
async def test_metadata_names_provider_as_authorization_server(
    provider: IdentityProvider,
) -> None:
    status, told = await document()
    assert status == 200
    assert told["resource"] == f"http://{HOST}/mcp"
    assert told["authorization_servers"] == [provider.issuer]
    assert told["scopes_supported"] == list(scopes.BASIC)


async def test_metadata_is_absent_without_a_public_url(external: Any) -> None:
    external(PUBLIC_URL="", OAUTH_AUDIENCE=["api://mcp"])
    assert (await document())[0] == 404
    with pytest.raises(Unauthorized) as refused:
        await Authenticator("external").authenticate(None, local=True)
    assert "resource_metadata" not in str(refused.value.headers)


async def test_configured_audience_replaces_server_url(external: Any, provider: IdentityProvider) -> None:
    external(OAUTH_AUDIENCE=["api://mcp", "mcp-clients"])
    for audience, is_good in (("api://mcp", True), ("mcp-clients", True), (f"http://{HOST}/mcp", False)):
        found = await sync_to_async(find_principal)(provider.token(aud=audience))
        assert (found is not None) == is_good


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/oauth/authorize",
        "/oauth/token",
        "/oauth/register",
        "/oauth/apps",
        "/accounts/login/",
    ],
)
def test_local_authorization_server_endpoints_return_404(external: Any, path: str) -> None:
    external(OAUTH=True)
    assert Browser(HTTP_HOST=HOST).get(path).status_code == 404


@pytest.mark.parametrize(
    ("given", "wanted", "asked"),
    [
        ({}, scopes.BASIC, "mcp mcp:tools mcp:resources mcp:prompts"),
        ({"api://mcp/use": "mcp:tools mcp:prompts"}, scopes.BASIC, "api://mcp/use"),
        ({"use": "mcp:tools", "admin": "mcp:admin"}, scopes.BASIC, "use"),
        ({"use": "mcp:tools", "admin": "mcp:admin"}, ("mcp:admin",), "use admin"),
        ({"all": "mcp:admin"}, scopes.BASIC, "all"),
        ({"*": "mcp mcp:tools"}, scopes.BASIC, ""),
    ],
)
@pytest.mark.requirement("AUTH-04", "AUTH-10")
def test_scope_challenge_uses_provider_scope_names(
    external: Any, given: dict[str, str], wanted: tuple[str, ...], asked: str
) -> None:
    external(OAUTH_SCOPES=given)
    assert requested(wanted) == asked


@pytest.mark.requirement("AUTH-10")
def test_insufficient_scope_challenge_uses_provider_scope_names(
    external: Any, provider: IdentityProvider
) -> None:
    external(OAUTH_SCOPES={"look": "mcp", "use": "mcp:tools"})
    principal = find_principal(provider.token(scope="look"))
    assert principal is not None
    assert 'scope="look use"' in (insufficient(principal, scopes.TOOLS, "https://m.example").challenge or "")


def test_api_accepts_token_with_admin_scope(provider: IdentityProvider) -> None:
    find_principal(provider.token())
    get_user_model().objects.update(is_superuser=True)
    wire = Browser(HTTP_HOST=HOST)
    statuses = {
        scope: wire.get("/api/tools/", headers={"Authorization": f"Bearer {provider.token(scope=scope)}"})
        for scope in ("mcp:admin", "mcp:tools")
    }
    assert {scope: answer.status_code for scope, answer in statuses.items()} == {
        "mcp:admin": 200,
        "mcp:tools": 403,
    }
    bad = wire.get("/api/tools/", headers={"Authorization": f"Bearer {provider.token(exp=1)}"})
    assert bad.status_code == 401
    assert 'scope="mcp:admin"' in bad["WWW-Authenticate"]


def test_api_returns_503_while_provider_was_never_reached(provider: IdentityProvider) -> None:
    provider.away = True
    wire = Browser(HTTP_HOST=HOST)
    answer = wire.get("/api/tools/", headers={"Authorization": f"Bearer {provider.token()}"})
    assert answer.status_code == 503
    assert answer["Retry-After"]


async def test_valid_token_raises_body_limit_and_unverifiable_token_returns_503(
    provider: IdentityProvider,
) -> None:
    size = 1024 * 1024

    async def sent(token: str) -> int:
        headers = {b"content-length": b"%d" % size, b"authorization": b"Bearer " + token.encode()}
        return (await Exchanged("/api/calls/", [b" " * size], headers).run()).status

    provider.away = True
    assert await sent(provider.token()) == 503
    from mcp_app.auth.identity_provider import provider as own_provider

    own_provider._verifier, provider.away = None, False
    assert await sent(provider.token()) == 200
    assert await sent(provider.token(aud="https://other.example")) == 413


async def issued(name: str) -> bytes:
    user = await get_user_model().objects.acreate(username=name)
    _, secret = await sync_to_async(issue_api_key)(user=user, name="laptop")
    return b"Bearer " + secret.encode()


async def test_api_keys_work_until_disabled(external: Any, provider: IdentityProvider) -> None:
    header = await issued("ada")
    assert (await Authenticator("external").authenticate(header, local=False)).name == "ada"
    external(API_KEYS=False)
    with pytest.raises(Unauthorized):
        await Authenticator("external").authenticate(header, local=False)
    wire = Browser(HTTP_HOST=HOST)
    answer = await sync_to_async(wire.get)("/api/", headers={"Authorization": header.decode()})
    assert answer.status_code == 401
    token = b"Bearer " + provider.token().encode()
    assert (await Authenticator("external").authenticate(token, local=False)).name == "grace"


async def test_local_request_requires_credential() -> None:
    with pytest.raises(Unauthorized):
        await Authenticator("external").authenticate(None, local=True)


def test_connect_page_mentions_api_keys_only_if_enabled(external: Any) -> None:
    page = Browser(HTTP_HOST=HOST).get("/connect/").content.decode()
    assert "you log in and allow the connection" in page
    assert "needs an API key" in page
    external(API_KEYS=False)
    assert "needs an API key" not in Browser(HTTP_HOST=HOST).get("/connect/").content.decode()
