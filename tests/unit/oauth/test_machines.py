"""Machine clients: answers to each kind of token request, and the rights of their tokens (AUTH-51)."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import connection
from django.test import Client as Browser
from django.utils import timezone

from mcp_app.auth.identity_provider import people
from mcp_app.egress import EgressError, Fetched
from mcp_app.models import AuditEvent, ServiceUser
from mcp_app.oauth import upkeep
from mcp_app.oauth.connections import disable, enable, find_principal
from mcp_app.oauth.machines import assertion_auth, public_keys
from mcp_app.oauth.machines.assertions import SIGNED_BY, TYPE
from mcp_app.oauth.machines.registration import Machine, create_machine
from mcp_app.oauth.models import AccessToken, Client, Connection, RefreshToken, UsedAssertion
from mcp_app.oauth.registration import create_client, metadata_of
from tests.unit.oauth.flow import BASE, FORM, HOST, RESOURCE

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

P256 = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
ED25519 = ed25519.Ed25519PrivateKey.generate()
KEYS: dict[str, Any] = {"ES256": P256, "RS256": RSA, "PS512": RSA, "EdDSA": ED25519}


def pem(key: Any) -> str:
    """Return the public key as PEM."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return str(key.public_key().public_bytes(serialization.Encoding.PEM, form).decode())


def signed(client_id: str, key: Any = P256, algorithm: str = "ES256", /, **changed: Any) -> str:
    """Return an assertion without claims set to None; ``headers`` extend the defaults."""
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": BASE,
        "exp": now + 300,
        "iat": now,
        "jti": f"{time.monotonic_ns()}",
        **changed,
    }
    headers = claims.pop("headers", None)
    kept_ones = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(kept_ones, key, algorithm, headers=headers)


def ask(form: dict[str, Any], **headers: Any) -> Any:
    """Return the answer of the token endpoint."""
    said = {"grant_type": "client_credentials", "resource": RESOURCE, **form}
    said = {name: value for name, value in said.items() if value is not None}
    wire = Browser(HTTP_HOST=HOST)
    return wire.post("/oauth/token", urlencode(said, doseq=True), content_type=FORM, **headers)


def by_assertion(assertion: str, **more: Any) -> Any:
    """Return the answer to an assertion."""
    return ask({"client_assertion": assertion, "client_assertion_type": TYPE, **more})


def basic(client_id: str, secret: str) -> dict[str, str]:
    """Return the Basic header of client id and secret."""
    told = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    return {"HTTP_AUTHORIZATION": f"Basic {told}"}


def with_secret(name: str = "nightly", scopes: tuple[str, ...] = ("mcp", "mcp:tools")) -> tuple[Client, str]:
    """Return a machine with a secret."""
    return create_machine(Machine(name, "client_secret_basic", scopes), actor=None)


def with_key(key: Any = P256, name: str = "signing", **more: Any) -> Client:
    """Return a machine with a signing key."""
    said = Machine(name, "private_key_jwt", ("mcp", "mcp:tools"), **{"jwks": pem(key), **more})
    return create_machine(said, actor=None)[0]


@pytest.fixture(autouse=True)
def _nothing_noted(transactional_db: None) -> None:
    """Forget refusals of earlier tests."""
    assertion_auth._audited._windows.clear()
    public_keys._fetched.clear()


@pytest.mark.requirement("AUTH-51", "AUTH-37")
def test_machine_gets_token_of_its_service_user_without_refresh_token() -> None:
    client, secret = with_secret()
    for answer in (
        ask({}, **basic(client.client_id, secret)),
        ask({"client_id": client.client_id, "client_secret": secret}),
    ):
        assert answer.status_code == 200, answer.content
        told = answer.json()
        assert set(told) == {"access_token", "token_type", "expires_in", "scope"}
        assert (told["token_type"], told["scope"]) == ("Bearer", "mcp mcp:tools")
        assert "no-store" in answer["Cache-Control"]
        principal = find_principal(told["access_token"])
        assert principal is not None
        assert principal.user_id == client.service_user_id
        assert (principal.audience, principal.name) == (RESOURCE, "machine-nightly")
        assert principal.scopes == {"mcp", "mcp:tools"}
    assert not RefreshToken.objects.exists()
    assert Connection.objects.count() == 1


@pytest.mark.requirement("AUTH-51")
@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize("aud", [BASE, f"{BASE}/oauth/token", [BASE]])
def test_machine_authenticates_with_signed_assertion(algorithm: str, aud: Any) -> None:
    client = with_key(KEYS[algorithm])
    answer = by_assertion(signed(client.client_id, KEYS[algorithm], algorithm, aud=aud))
    assert answer.status_code == 200, answer.content
    principal = find_principal(answer.json()["access_token"])
    assert principal is not None
    assert principal.user_id == client.service_user_id


@pytest.mark.requirement("AUTH-50", "AUTH-51")
@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, "mcp mcp:tools"),
        ("mcp", "mcp"),
        ("mcp mcp:tools mcp:resources mcp:prompts offline_access", "mcp mcp:tools"),
        ("offline_access", "mcp mcp:tools"),
        ("mcp:admin", None),
        ("everything", None),
    ],
)
def test_machine_scopes_are_limited_by_administrator(asked: str | None, given: str | None) -> None:
    client, secret = with_secret()
    answer = ask({"scope": asked}, **basic(client.client_id, secret))
    if given is None:
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_scope")
    else:
        assert answer.json()["scope"] == given


def shared(client: Client) -> str:
    """Sign an assertion with the text of the public key as a shared secret."""
    _, claims, _ = signed(client.client_id).split(".")
    header = base64.urlsafe_b64encode(b'{"alg": "HS256", "typ": "JWT"}').decode().rstrip("=")
    mark = hmac.digest(pem(P256).encode(), f"{header}.{claims}".encode(), "sha256")
    return f"{header}.{claims}.{base64.urlsafe_b64encode(mark).decode().rstrip('=')}"


HOSTILE: dict[str, tuple[Callable[[Client], Any], str]] = {
    "another key": (lambda c: by_assertion(signed(c.client_id, OTHER)), "invalid_client"),
    "another algorithm": (lambda c: by_assertion(signed(c.client_id, RSA, "RS256")), "invalid_client"),
    "the public key as a shared one": (
        lambda c: by_assertion(shared(c)),
        "invalid_client",
    ),
    "none": (lambda c: by_assertion(signed(c.client_id, None, "none")), "invalid_client"),
    "other audience": (
        lambda c: by_assertion(signed(c.client_id, aud="https://b.example")),
        "invalid_client",
    ),
    "two audiences": (
        lambda c: by_assertion(signed(c.client_id, aud=[BASE, "https://b.example"])),
        "invalid_client",
    ),
    "audience with trailing slash": (
        lambda c: by_assertion(signed(c.client_id, aud=BASE + "/")),
        "invalid_client",
    ),
    "non-string audience": (lambda c: by_assertion(signed(c.client_id, aud=[{}])), "invalid_client"),
    "missing audience": (lambda c: by_assertion(signed(c.client_id, aud=None)), "invalid_client"),
    "expired": (lambda c: by_assertion(signed(c.client_id, exp=int(time.time()) - 61)), "invalid_client"),
    "missing expiry": (lambda c: by_assertion(signed(c.client_id, exp=None)), "invalid_client"),
    "boolean expiry": (lambda c: by_assertion(signed(c.client_id, exp=True)), "invalid_client"),
    "distant expiry": (
        lambda c: by_assertion(signed(c.client_id, exp=int(time.time()) + 4_000)),
        "invalid_client",
    ),
    "huge expiry": (lambda c: by_assertion(signed(c.client_id, exp=1e300)), "invalid_client"),
    "issued in the future": (
        lambda c: by_assertion(signed(c.client_id, iat=int(time.time()) + 90)),
        "invalid_client",
    ),
    "issued long ago": (
        lambda c: by_assertion(signed(c.client_id, iat=int(time.time()) - 4_000)),
        "invalid_client",
    ),
    "not yet valid": (
        lambda c: by_assertion(signed(c.client_id, nbf=int(time.time()) + 90)),
        "invalid_client",
    ),
    "missing jti": (lambda c: by_assertion(signed(c.client_id, jti=None)), "invalid_client"),
    "empty jti": (lambda c: by_assertion(signed(c.client_id, jti="")), "invalid_client"),
    "oversized jti": (lambda c: by_assertion(signed(c.client_id, jti="x" * 256)), "invalid_client"),
    "other issuer": (lambda c: by_assertion(signed(c.client_id, iss="other")), "invalid_client"),
    "other subject": (lambda c: by_assertion(signed(c.client_id, sub="other")), "invalid_client"),
    "unknown machine": (lambda _: by_assertion(signed("unknown")), "invalid_client"),
    "other client_id": (
        lambda c: by_assertion(signed(c.client_id), client_id="other"),
        "invalid_client",
    ),
    "access token (typ)": (
        lambda c: by_assertion(signed(c.client_id, headers={"typ": "at+jwt"})),
        "invalid_client",
    ),
    "critical extension": (
        lambda c: by_assertion(signed(c.client_id, headers={"crit": ["exp"]})),
        "invalid_client",
    ),
    "jwk in header": (
        lambda c: by_assertion(
            signed(
                c.client_id, OTHER, headers={"jwk": jwt.algorithms.ECAlgorithm.to_jwk(OTHER, as_dict=True)}
            )
        ),
        "invalid_client",
    ),
    "oversized": (lambda c: by_assertion(signed(c.client_id, more="x" * 9_000)), "invalid_client"),
    "not a JWT": (lambda _: by_assertion("mcpcs_secret"), "invalid_client"),
    "not ASCII": (lambda _: by_assertion("é.é.é"), "invalid_client"),
    "deeply nested header": (
        lambda _: by_assertion(f"{base64.urlsafe_b64encode(b'[' * 900).decode()}.{'x' * 10}.x"),
        "invalid_client",
    ),
    "empty": (lambda _: by_assertion(""), "invalid_client"),
    "other assertion type": (
        lambda c: ask({"client_assertion": signed(c.client_id), "client_assertion_type": "saml2-bearer"}),
        "invalid_request",
    ),
    "missing assertion type": (lambda c: ask({"client_assertion": signed(c.client_id)}), "invalid_request"),
    "assertion type only": (lambda _: ask({"client_assertion_type": TYPE}), "invalid_request"),
    "two assertions": (
        lambda c: ask(
            {"client_assertion": [signed(c.client_id), signed(c.client_id)], "client_assertion_type": TYPE}
        ),
        "invalid_request",
    ),
    "assertion and secret": (
        lambda c: by_assertion(signed(c.client_id), client_secret="guessed"),
        "invalid_request",
    ),
    "empty form": (lambda _: ask({}), "invalid_client"),
    "client id only": (lambda c: ask({"client_id": c.client_id}), "invalid_client"),
    "empty secret": (lambda c: ask({"client_id": c.client_id, "client_secret": ""}), "invalid_client"),
    "missing resource": (lambda c: by_assertion(signed(c.client_id), resource=None), "invalid_target"),
    "foreign resource": (
        lambda c: by_assertion(signed(c.client_id), resource="https://b.example/mcp"),
        "invalid_target",
    ),
    "two resources": (
        lambda c: by_assertion(signed(c.client_id), resource=[RESOURCE, "https://b.example/mcp"]),
        "invalid_target",
    ),
    "refresh grant": (
        lambda c: by_assertion(signed(c.client_id), grant_type="refresh_token", refresh_token="mcprt_x"),
        "unauthorized_client",
    ),
    "code grant": (
        lambda c: by_assertion(signed(c.client_id), grant_type="authorization_code", code="mcpac_x"),
        "unauthorized_client",
    ),
    "unsupported grant": (
        lambda c: by_assertion(signed(c.client_id), grant_type="password"),
        "unsupported_grant_type",
    ),
    "two grants": (
        lambda c: by_assertion(signed(c.client_id), grant_type=["client_credentials", "client_credentials"]),
        "invalid_request",
    ),
}


@pytest.mark.requirement("AUTH-51", "AUTH-37")
@pytest.mark.parametrize("name", HOSTILE)
def test_unproven_token_request_returns_error_and_no_token(name: str) -> None:
    request, error = HOSTILE[name]
    answer = request(with_key())
    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.content
    assert "no-store" in answer["Cache-Control"]
    assert not AccessToken.objects.exists()


@pytest.mark.requirement("AUTH-51")
def test_assertion_is_valid_once() -> None:
    client = with_key()
    assertion = signed(client.client_id)
    assert by_assertion(assertion).status_code == 200
    assert by_assertion(assertion).json()["error"] == "invalid_client"
    refused = signed(client.client_id)
    assert by_assertion(refused, scope="everything").json()["error"] == "invalid_scope"
    assert by_assertion(refused).json()["error"] == "invalid_client"
    other = with_key(name="other")
    same_id = signed(client.client_id, jti="one"), signed(other.client_id, jti="one")
    assert [by_assertion(each).status_code for each in same_id] == [200, 200]
    assert AuditEvent.objects.filter(action="oauth.machine_refused").count() == 1


@pytest.mark.requirement("AUTH-51")
def test_concurrent_reuse_of_assertion_succeeds_once() -> None:
    assertion = signed(with_key().client_id)

    def once(_: int) -> int:
        try:
            return int(by_assertion(assertion).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as threads:
        statuses = sorted(threads.map(once, range(5)))
    assert statuses.count(200) == 1, statuses
    assert AccessToken.objects.count() == 1


@pytest.mark.requirement("AUTH-51")
def test_clock_skew_of_one_minute_is_accepted() -> None:
    client, now = with_key(), int(time.time())
    for times in ({"exp": now - 50, "iat": now - 350}, {"iat": now + 50, "exp": now + 350, "nbf": now + 50}):
        assert by_assertion(signed(client.client_id, **times)).status_code == 200


@pytest.mark.requirement("AUTH-51", "AUTH-44")
def test_client_credentials_are_for_machines_only(browser: Browser) -> None:
    public, _ = create_client(metadata_of({"redirect_uris": ["https://a.example/"]}), actor=None)
    told = {"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "client_secret_basic"}
    confidential, secret = create_client(metadata_of(told), actor=None)
    registered = Browser(HTTP_HOST=HOST).post("/oauth/register", json.dumps(told), "application/json").json()
    assert ask({"client_id": public.client_id}).json()["error"] == "invalid_client"
    for client_id, known in (
        (confidential.client_id, secret),
        (registered["client_id"], registered["client_secret"]),
    ):
        answer = ask({}, **basic(client_id, known))
        assert answer.json()["error"] == "unauthorized_client"
    assert by_assertion(signed(public.client_id)).json()["error"] == "invalid_client"
    machine, _ = with_secret()
    asked = {"response_type": "code", "client_id": machine.client_id, "redirect_uri": "https://a.example/"}
    page = browser.get("/oauth/authorize", asked)
    assert page.status_code == 400
    assert "Location" not in page
    assert not AccessToken.objects.exists()


@pytest.mark.requirement("AUTH-51")
@pytest.mark.parametrize("end", ["client off", "user off", "user gone", "connection", "revoked", "moved"])
def test_machine_tokens_end_with_their_preconditions(end: str, settings: Any) -> None:
    client, secret = with_secret()
    user = client.service_user
    assert user is not None
    header = basic(client.client_id, secret)
    first, second = (ask({}, **header).json()["access_token"] for _ in range(2))
    again, error = False, "unauthorized_client"
    if end == "client off":
        disable(client, actor=None)
        error = "invalid_client"
    elif end == "user off":
        user.is_active = False
        user.save()
    elif end == "user gone":
        user.delete()
    elif end == "connection":
        Connection.objects.update(revoked_at=timezone.now())
        again = True
    elif end == "moved":
        settings.MCP = {**settings.MCP, "PUBLIC_URL": "http://127.0.0.1:9000"}
        again = True
    else:
        wire = Browser(HTTP_HOST=HOST)
        form = urlencode({"token": first})
        assert wire.post("/oauth/revoke", form, content_type=FORM, **header).status_code == 200
        again = True
    assert find_principal(first) is None
    # One of several runs of a machine must not end the others when it stops.
    assert (find_principal(second) is not None) == (end == "revoked")
    answer = ask({"resource": f"{settings.MCP['PUBLIC_URL']}/mcp"}, **header)
    assert (answer.status_code == 200) == again
    if not again:
        assert answer.json()["error"] == error
    if end == "client off":
        enable(client, actor=None)
        assert ask({}, **header).status_code == 200


@pytest.mark.requirement("AUTH-38", "AUTH-51")
def test_token_is_revoked_only_by_its_own_machine() -> None:
    client, other = with_key(), with_key(name="other")
    token = by_assertion(signed(client.client_id)).json()["access_token"]
    wire = Browser(HTTP_HOST=HOST)
    for asks, ends in ((other, False), (client, True)):
        form = {"token": token, "client_assertion": signed(asks.client_id), "client_assertion_type": TYPE}
        assert wire.post("/oauth/revoke", urlencode(form), content_type=FORM).status_code == 200
        assert (find_principal(token) is None) == ends


@pytest.mark.requirement("AUTH-51")
def test_metadata_lists_machine_authentication_methods() -> None:
    with_key()
    told = Browser(HTTP_HOST=HOST).get("/.well-known/oauth-authorization-server").json()
    assert "client_credentials" in told["grant_types_supported"]
    methods = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
    assert told["token_endpoint_auth_methods_supported"] == methods
    assert told["token_endpoint_auth_signing_alg_values_supported"] == list(SIGNED_BY)
    assert {"ES256", "RS256"} <= set(SIGNED_BY)
    assert not [name for name in SIGNED_BY if name.startswith("HS") or name == "none"]


def test_machine_secrets_are_neither_stored_nor_audited_in_plain_text(caplog: Any) -> None:
    client, secret = with_secret()
    signing = with_key()
    assertion = signed(signing.client_id)
    token = ask({}, **basic(client.client_id, secret)).json()["access_token"]
    other = by_assertion(assertion).json()["access_token"]
    by_assertion(assertion)
    ask({}, **basic(client.client_id, "wrong"))
    models = (Client, Connection, AccessToken, UsedAssertion, AuditEvent, ServiceUser)
    stored = str([row for model in models for row in model.objects.values()]) + caplog.text
    for kept_nowhere in (secret, token, other, assertion, assertion.rpartition(".")[2]):
        assert kept_nowhere not in stored
    actions = list(AuditEvent.objects.order_by("pk").values_list("action", flat=True))
    assert actions.count("oauth.machine_enter") == actions.count("oauth.machine_connect") == 2
    assert actions.count("oauth.machine_refused") == 2


def test_failed_guesses_are_audited_once_a_minute() -> None:
    client, _ = with_secret()
    for _ in range(5):
        assert ask({}, **basic(client.client_id, "wrong")).status_code == 401
    assert AuditEvent.objects.filter(action="oauth.machine_refused").count() == 1


@pytest.mark.requirement("AUTH-51")
class TestServiceUsers:
    """Service users of machines cannot log in."""

    def test_service_user_has_no_password_and_no_permissions(self) -> None:
        client, _ = with_secret()
        user: Any = client.service_user
        assert not user.has_usable_password()
        assert (user.is_staff, user.is_superuser, user.get_all_permissions()) == (False, False, set())
        assert ServiceUser.objects.filter(user=user).exists()

    @pytest.mark.parametrize("door", ["/accounts/login/", "/admin/login/"])
    def test_service_user_with_password_cannot_log_in(self, door: str) -> None:
        client, _ = with_secret()
        user: Any = client.service_user
        user.set_password("a long enough password")
        user.is_staff = True
        user.save()
        said = {"username": user.get_username(), "password": "a long enough password"}
        wire = Browser(HTTP_HOST=HOST)
        assert wire.post(door, said).status_code == 403
        assert "_auth_user_id" not in wire.session
        assert wire.get("/admin/").status_code == 302
        assert AuditEvent.objects.filter(action="service_user.login_refused").count() == 1

    def test_service_user_is_never_linked_to_provider_identity(self, settings: Any) -> None:
        client, _ = with_secret()
        settings.MCP = {**settings.MCP, "OAUTH_LINK_USERS": True}
        name = str(client.service_user)
        claims: Any = SimpleNamespace(username=name, issuer="https://id.example", subject="1")
        assert people._namesake(claims) is None

    def test_each_machine_has_distinct_service_user_name(self) -> None:
        get_user_model().objects.create_user("Machine-Nightly")
        names = [str(with_secret(name)[0].service_user) for name in ("nightly", "Nightly", "nightly")]
        assert len({name.lower() for name in (*names, "machine-nightly")}) == 4

    def test_direct_login_of_service_user_raises_permission_denied(self) -> None:
        client, _ = with_secret()
        with pytest.raises(PermissionDenied):
            Browser(HTTP_HOST=HOST).force_login(client.service_user)  # type: ignore[arg-type]


def jwks(*keys: Any) -> str:
    """Return a key set."""
    found = [
        {**jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": f"k{number}"}
        for number, key in enumerate(keys)
    ]
    return json.dumps({"keys": found})


@pytest.mark.requirement("AUTH-51")
class TestKeys:
    """Keys entered by an administrator, or published by a machine."""

    def test_key_set_supports_key_rotation(self) -> None:
        client = with_key(jwks=jwks(P256, OTHER))
        for key, kid in ((P256, "k0"), (OTHER, "k1"), (OTHER, None)):
            headers = {"kid": kid} if kid else None
            assert by_assertion(signed(client.client_id, key, headers=headers)).status_code == 200
        wrong = signed(client.client_id, P256, headers={"kid": "k1"})
        assert by_assertion(wrong).json()["error"] == "invalid_client"

    @pytest.mark.parametrize(
        ("said", "field"),
        [
            ({"jwks": ""}, "jwks"),
            ({"jwks": "no key"}, "jwks"),
            ({"jwks": "[]"}, "jwks"),
            ({"jwks": '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'}, "jwks"),
            ({"jwks": json.dumps(jwt.algorithms.ECAlgorithm.to_jwk(P256, as_dict=True))}, "jwks"),
            ({"jwks": pem(rsa.generate_private_key(65537, 1024))}, "jwks"),
            ({"jwks": "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----"}, "jwks"),
            ({"jwks": "-----BEGIN PUBLIC KEY-----\nMC4C\n-----END PUBLIC KEY-----"}, "jwks"),
            ({"jwks": jwks(*[P256] * 6)}, "jwks"),
            ({"jwks": "x" * 17_000}, "jwks"),
            ({"jwks_uri": "https://keys.example/jwks"}, "jwks"),
            ({"jwks": "", "jwks_uri": "http://keys.example/jwks"}, "jwks_uri"),
            ({"jwks": "", "jwks_uri": "https://me:pw@keys.example/"}, "jwks_uri"),
            ({"jwks": "", "jwks_uri": "https://keys.example:99999/"}, "jwks_uri"),
            ({"name": " "}, "name"),
            ({"auth_method": "none"}, "token_auth_method"),
            ({"scopes": ()}, "scopes"),
            ({"scopes": ("everything",)}, "scopes"),
        ],
    )
    def test_invalid_machine_is_rejected_at_its_field(self, said: dict[str, Any], field: str) -> None:
        whole = {"name": "m", "auth_method": "private_key_jwt", "scopes": ("mcp",), "jwks": pem(P256), **said}
        with pytest.raises(ValidationError) as refused:
            create_machine(Machine(**whole), actor=None)
        assert field in refused.value.message_dict
        assert not Client.objects.exists()
        assert not ServiceUser.objects.exists()

    def test_jwks_uri_is_fetched_once_despite_unknown_key_ids(self, monkeypatch: Any) -> None:
        published, asked = [json.loads(jwks(P256))], []

        async def fetched(url: str, policy: Any) -> Any:
            asked.append((url, policy.max_redirects, policy.ports, policy.allow))
            return Fetched(url, 200, "application/json", "utf-8", json.dumps(published[0]).encode())

        monkeypatch.setattr("mcp_app.auth.identity_provider.metadata.fetch", fetched)
        client = with_key(jwks="", jwks_uri="https://keys.example/jwks")
        for _ in range(3):
            assert by_assertion(signed(client.client_id, headers={"kid": "k0"})).status_code == 200
        assert asked == [("https://keys.example/jwks", 0, frozenset({443}), frozenset())]
        for _ in range(3):  # Unknown key ids cause no immediate refetch.
            unknown = signed(client.client_id, OTHER, headers={"kid": "k1"})
            assert by_assertion(unknown).json()["error"] == "invalid_client"
        assert len(asked) == 1
        published[0] = json.loads(jwks(P256, OTHER))
        (fetching,) = public_keys._fetched.values()
        fetching._ask_at = 0.0  # The time to the next fetch is over.
        added = signed(client.client_id, OTHER, headers={"kid": "k1"})
        assert by_assertion(added).status_code == 200
        assert len(asked) == 2

    def test_unreachable_jwks_uri_returns_503_with_retry_after(self, monkeypatch: Any) -> None:
        async def away(url: str, policy: Any) -> Any:
            raise EgressError("no such host")

        monkeypatch.setattr("mcp_app.auth.identity_provider.metadata.fetch", away)
        client = with_key(jwks="", jwks_uri="https://keys.example/jwks")
        answer = by_assertion(signed(client.client_id))
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
        assert answer["Retry-After"]

    def test_private_jwks_uri_is_not_fetched(self) -> None:
        client = with_key(jwks="", jwks_uri="https://127.0.0.1/jwks")
        answer = by_assertion(signed(client.client_id))
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")


def test_purge_removes_expired_rows_and_keeps_machine() -> None:
    client = with_key()
    token = by_assertion(signed(client.client_id)).json()["access_token"]
    Connection.objects.update(created_at=timezone.now() - timedelta(days=2))
    upkeep.purge()
    assert find_principal(token) is not None
    assert UsedAssertion.objects.count() == 1
    UsedAssertion.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    AccessToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    upkeep.purge()
    assert not UsedAssertion.objects.exists()
    assert not AccessToken.objects.exists()
    assert Client.objects.filter(pk=client.pk).exists()
