"""Machine clients log in with the official Python client, against two web processes (AUTH-51)."""

from __future__ import annotations

import asyncio
import json
import time

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)

from mcp_app.oauth.machines.assertions import TYPE
from tests.bounds import SLACK
from tests.integration.oauth.person import Memory, Person
from tests.integration.oauth.test_python_client import REVOKED_SECONDS, added, connected, metadata
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process]
KEY = ec.generate_private_key(ec.SECP256R1())
ENTERED = """
import json
from mcp_app.oauth.machines.registration import Machine, create_machine
made = Machine({name!r}, {method!r}, ("mcp", "mcp:tools"), jwks={jwks!r})
client, secret = create_machine(made, actor=None)
print(json.dumps([client.client_id, secret]))
"""


def entered(server: LiveServer, name: str, method: str, jwks: str = "") -> tuple[str, str]:
    """Create a machine client; return its id and secret."""
    printed = server.shell(ENTERED.format(name=name, method=method, jwks=jwks))
    client_id, secret = json.loads(printed.strip().splitlines()[-1])
    return client_id, secret


def private() -> str:
    """Return the private key of the machine."""
    form = serialization.PrivateFormat.PKCS8
    return KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def public() -> str:
    """Return the public key stored by the server."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return KEY.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


@pytest.mark.requirement("AUTH-19", "AUTH-51")
@pytest.mark.parametrize("end", ["disable(client, actor=None)", "off(client)"])
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt"])
async def test_machine_logs_in_calls_a_tool_and_ends_with_its_client_or_user(
    server: LiveServer, method: str, end: str
) -> None:
    base, memory = server.url.removesuffix("/mcp"), Memory()
    signs = method == "private_key_jwt"
    client_id, secret = await asyncio.to_thread(entered, server, end, method, public() if signs else "")
    if signs:
        signing = SignedJWTParameters(
            issuer=client_id, subject=client_id, signing_key=private(), signing_algorithm="ES256"
        )
        assertions = signing.create_assertion_provider()
        own_way: PrivateKeyJWTOAuthProvider | ClientCredentialsOAuthProvider = PrivateKeyJWTOAuthProvider(
            server.url, memory, client_id, assertions, issuer=base
        )
    else:
        own_way = ClientCredentialsOAuthProvider(server.url, memory, client_id, secret, method, issuer=base)  # type: ignore[arg-type]
    person = Person()
    async with connected(server, memory, person, own_way) as client:
        assert await added(client) == {"result": 5}
    assert person.opened == 0
    assert memory.tokens is not None
    assert memory.tokens.refresh_token is None
    token = memory.tokens.access_token
    async with httpx2.AsyncClient(timeout=60) as http:
        for process in (0, 1):
            assert (await metadata(http, server, token, process)).status_code == 200
        await asyncio.to_thread(
            server.shell,
            "from mcp_app.oauth.connections import disable\n"
            "from mcp_app.oauth.models import Client\n"
            "def off(client):\n"
            "    client.service_user.is_active = False\n"
            "    client.service_user.save()\n"
            f"client = Client.objects.get(client_id={client_id!r})\n"
            f"{end}",
        )
        began = time.monotonic()
        for process in (0, 1):
            while (await metadata(http, server, token, process)).status_code != 401:
                assert time.monotonic() - began < REVOKED_SECONDS + SLACK, process
                await asyncio.sleep(0.2)
    for kept_nowhere in (token, secret or token):
        assert kept_nowhere not in server.logs()


@pytest.mark.requirement("AUTH-51")
async def test_concurrent_use_of_one_assertion_succeeds_once(server: LiveServer) -> None:
    client_id, _ = await asyncio.to_thread(entered, server, "replayed", "private_key_jwt", public())
    now, base = int(time.time()), server.url.removesuffix("/mcp")
    claims = {"iss": client_id, "sub": client_id, "aud": base, "exp": now + 300, "iat": now, "jti": "once"}
    form = {
        "grant_type": "client_credentials",
        "resource": server.url,
        "client_assertion_type": TYPE,
        "client_assertion": jwt.encode(claims, KEY, "ES256"),
    }
    async with httpx2.AsyncClient(timeout=60) as http:
        places = [f"http://127.0.0.1:{server.ports[number % 2]}/oauth/token" for number in range(6)]
        answers = await asyncio.gather(*(http.post(place, data=form) for place in places))
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400, 400, 400]
    assert {answer.json()["error"] for answer in answers if answer.status_code == 400} == {"invalid_client"}
