"""Verification of provider tokens; every invalid token gets the same refusal."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from mcp_app import servers
from mcp_app.auth import authentication, own_addresses
from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.identity_provider import provider as own_provider
from mcp_app.auth.identity_provider import verification
from mcp_app.auth.principal import Principal
from mcp_app.models import ExternalIdentity
from mcp_app.protocol.errors import Unauthorized
from mcp_app.protocol.messages.server import Server
from tests.servers.identity_provider import AUDIENCE, IdentityProvider, private_key, public_jwk
from tests.unit.auth.stopped_clock import Stopped

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
METADATA = "http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"
UNKNOWN = b"Bearer mcp_" + b"x" * 43


async def comes_in(authenticator: Authenticator, token: str) -> Principal:
    """Return the principal of a request with the token."""
    return await authenticator.authenticate(b"Bearer " + token.encode(), local=False, metadata=METADATA)


async def refusal(authenticator: Authenticator, authorization: bytes) -> tuple[Any, ...]:
    """Return everything a sender learns from a refusal."""
    with pytest.raises(Unauthorized) as refused:
        await authenticator.authenticate(authorization, local=False, metadata=METADATA)
    error = refused.value
    return error.http_status, error.code, error.message, error.data, error.headers


@pytest.mark.requirement("AUTH-07")
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        ("rsa", "RS256"),
        ("rsa", "RS384"),
        ("rsa", "RS512"),
        ("rsa", "PS256"),
        ("rsa", "PS512"),
        ("p256", "ES256"),
        ("p384", "ES384"),
        ("p521", "ES512"),
        ("ed25519", "EdDSA"),
    ],
)
async def test_asymmetric_signature_is_accepted(
    authenticator: Authenticator, provider: IdentityProvider, key: str, algorithm: str
) -> None:
    provider.published.append(public_jwk(key))
    principal = await comes_in(authenticator, provider.token(key, algorithm))
    assert principal.name == "grace"


@pytest.mark.requirement("AUTH-07")
async def test_provider_token_for_further_server_opens_that_server_only(
    authenticator: Authenticator, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys = {"/mcp/toy": Server("toy", "1", path="/mcp/toy")}
    monkeypatch.setattr(servers, "_providers", [lambda: toys])
    tokens = {"/mcp/toy": provider.token(aud=f"{AUDIENCE}/toy"), "/mcp": provider.token(aud=AUDIENCE)}
    for path, token in tokens.items():
        header = b"Bearer " + token.encode()
        for other in tokens.keys() - {path}:
            expected = (
                f"for {AUDIENCE.removesuffix('/mcp')}{path}. This server expects a token for .*{other}."
            )
            # The first refusal looks the token up, and the second is cached.
            for _ in range(2):
                with pytest.raises(Unauthorized, match=expected):
                    await authenticator.authenticate(header, local=False, path=other)
        principal = await authenticator.authenticate(header, local=False, path=path)
        assert principal.path == path
        assert principal.audience == AUDIENCE.removesuffix("/mcp") + path
    toys.clear()
    authenticator.forget()
    for path in tokens:
        with pytest.raises(Unauthorized):
            await authenticator.authenticate(b"Bearer " + tokens["/mcp/toy"].encode(), local=False, path=path)


@pytest.mark.requirement("AUTH-07")
@pytest.mark.parametrize(
    ("audience", "path"),
    [("https://h.example/mcp", "/mcp"), ("https://h.example/mcp/toy", "/mcp/toy"), ("api://mine", "/mcp")],
)
def test_configured_audience_opens_the_server_that_it_names(
    audience: str, path: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": "https://h.example"}
    monkeypatch.setattr(servers, "_providers", [lambda: toys])
    toys = {"/mcp/toy": Server("toy", "1", path="/mcp/toy")}
    own = frozenset({"https://h.example/mcp", "https://h.example/mcp/toy", "api://mine"})
    assert own_provider._path_for(frozenset({audience}), own) == path
    toys.clear()
    assert own_provider._path_for(frozenset({audience}), own) == ("" if path == "/mcp/toy" else path)


def test_without_public_address_no_bare_path_is_an_audience(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": ""}
    monkeypatch.setattr(servers, "_providers", [lambda: {"/mcp/toy": Server("toy", "1", path="/mcp/toy")}])
    assert own_addresses.further_resources() == frozenset()
    assert own_addresses.path_of("/mcp/toy") == ""


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", None])
async def test_token_type_spellings_are_accepted(
    authenticator: Authenticator, provider: IdentityProvider, typ: str | None
) -> None:
    assert await comes_in(authenticator, provider.token(header={"typ": typ}))


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["https://other.example", AUDIENCE]},
        {"aud": AUDIENCE.replace("/mcp", "/sse")},
        {"iat": None},
        {"nbf": lambda: time.time() - 5},
        # Clocks may differ by a minute.
        {"exp": lambda: time.time() - 30},
        {"nbf": lambda: time.time() + 30},
        {"iat": lambda: time.time() + 30},
        {"exp": lambda: time.time() + 300.5},
    ],
)
async def test_valid_claims_are_accepted(
    authenticator: Authenticator, provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    said = {name: value() if callable(value) else value for name, value in claims.items()}
    assert await comes_in(authenticator, provider.token(**said))


async def test_token_may_omit_key_id_if_provider_has_one_key(
    authenticator: Authenticator, provider: IdentityProvider
) -> None:
    token = provider.token(header={"kid": None})
    assert await comes_in(authenticator, token)
    provider.published.append(public_jwk("rsa-2"))
    other = Authenticator("external")
    _forget_keys()
    with pytest.raises(Unauthorized):
        await comes_in(other, token)


def _forget_keys() -> None:
    """Drop cached keys, as in a process that has just started."""
    from mcp_app.auth.identity_provider import provider as own_provider

    own_provider._verifier = None


@pytest.mark.requirement("AUTH-26")
async def test_token_of_8_kb_is_accepted(authenticator: Authenticator, provider: IdentityProvider) -> None:
    token = provider.token(groups=["0123456789" * 10] * 50)
    assert 7_000 < len(token) < verification.MAX_TOKEN
    assert await comes_in(authenticator, token)


def b64(data: bytes | dict[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned(provider: IdentityProvider, algorithm: str) -> str:
    return f"{b64({'alg': algorithm, 'kid': 'rsa', 'typ': 'at+jwt'})}.{b64(provider.claims())}."


def signed_with_the_public_key(provider: IdentityProvider) -> str:
    """Sign with HS256 and the public key as the secret."""
    pem = (
        private_key("rsa")
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    text = f"{b64({'alg': 'HS256', 'kid': 'rsa', 'typ': 'at+jwt'})}.{b64(provider.claims())}"
    return f"{text}.{b64(hmac.digest(pem, text.encode(), hashlib.sha256))}"


def by_the_key_in_its_own_header(provider: IdentityProvider) -> str:
    return provider.token("rsa-9", header={"kid": "rsa", "jwk": public_jwk("rsa-9")})


def by_a_key_that_its_header_points_to(provider: IdentityProvider) -> str:
    elsewhere = {"jku": f"{provider.issuer}/evil", "x5u": f"{provider.issuer}/evil", "x5c": ["AAAA"]}
    return provider.token("rsa-9", header={"kid": "rsa", **elsewhere})


def with_another_payload(provider: IdentityProvider) -> str:
    head, _, signature = provider.token().split(".")
    return f"{head}.{b64(provider.claims(sub='somebody-else'))}.{signature}"


def with_another_header(provider: IdentityProvider) -> str:
    _, payload, signature = provider.token().split(".")
    return f"{b64({'alg': 'RS256', 'kid': 'rsa'})}.{payload}.{signature}"


def said(**claims: Any) -> Callable[[IdentityProvider], str]:
    def made(provider: IdentityProvider) -> str:
        return provider.token(
            **{name: value() if callable(value) else value for name, value in claims.items()}
        )

    return made


def headed(**members: Any) -> Callable[[IdentityProvider], str]:
    return lambda provider: provider.token(header=members)


def text(value: str) -> Callable[[IdentityProvider], str]:
    return lambda _: value


DEEP = b64(b'{"alg":"RS256","kid":"rsa","x":' + b"[" * 900)

BAD: dict[str, Callable[[IdentityProvider], str]] = {
    "unsigned, alg none": lambda provider: unsigned(provider, "none"),
    "unsigned, alg None": lambda provider: unsigned(provider, "None"),
    "unsigned, alg RS256": lambda provider: unsigned(provider, "RS256"),
    "HS256 with public key as secret": signed_with_the_public_key,
    "jwk in header": by_the_key_in_its_own_header,
    "jku in header": by_a_key_that_its_header_points_to,
    "changed payload": with_another_payload,
    "changed header": with_another_header,
    "unknown key": lambda provider: provider.token("rsa-9"),
    "known kid, other key": lambda provider: provider.token("rsa-9", header={"kid": "rsa"}),
    "EC signature with kid of RSA key": lambda provider: provider.token("p256", header={"kid": "rsa"}),
    "kid of wrong type": lambda provider: f"{b64({'alg': 'RS256', 'kid': 7})}.e30.AAAA",
    "alg of wrong type": lambda provider: f"{b64({'alg': ['RS256'], 'kid': 'rsa'})}.e30.AAAA",
    "oversized kid": lambda provider: f"{b64({'alg': 'RS256', 'kid': 'k' * 1000})}.e30.AAAA",
    "other issuer": said(iss="https://evil.example"),
    "issuer with trailing slash": lambda provider: provider.token(iss=provider.issuer + "/"),
    "missing issuer": said(iss=None),
    "empty issuer": said(iss=""),
    "other audience": said(aud="https://other.example/mcp"),
    "audience with longer path": said(aud=AUDIENCE + "/more"),
    "audience without path": said(aud="http://127.0.0.1:8000"),
    "missing audience": said(aud=None),
    "empty audience": said(aud=[]),
    "non-string audience": said(aud={AUDIENCE: True}),
    "partly non-string audiences": said(aud=[AUDIENCE, 7]),
    "expired": said(exp=lambda: time.time() - 90),
    "missing expiry": said(exp=None),
    "non-numeric expiry": said(exp="soon"),
    "expiry as string": said(exp=lambda: str(int(time.time()) + 300)),
    "boolean expiry": said(exp=True),
    "huge expiry": said(exp=1e300),
    "not yet valid": said(nbf=lambda: time.time() + 90),
    "issued in the future": said(iat=lambda: time.time() + 90),
    "malformed iat": said(iat=[]),
    "missing subject": said(sub=None),
    "empty subject": said(sub=""),
    "subject with control character": said(sub="per\0son"),
    "oversized subject": said(sub="s" * 256),
    "ID token": headed(typ="id+jwt"),
    "logout token": headed(typ="logout+jwt"),
    "client assertion": headed(typ="oauth-id-jag+jwt"),
    "critical extension": headed(crit=["exp"], exp=1),
    "proof-of-possession token": said(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
    "encrypted": text("eyJhbGciOiJSU0EtT0FFUCJ9.AAAA.AAAA.AAAA.AAAA"),
    "two parts": text("eyJhbGciOiJSUzI1NiJ9.e30"),
    "no parts": text("eyJhbGciOiJSUzI1NiJ9"),
    "empty parts": text("ey.."),
    "garbage": text("ey!!!.???.~~~"),
    "list as header": text(f"ey{b64(b'[]')}.e30.AAAA"),
    "deeply nested header": text(f"{DEEP}.e30.AAAA"),
    "one byte too long": lambda provider: (provider.token() + "A" * 8192)[: verification.MAX_TOKEN + 1],
    "oversize": lambda provider: provider.token(groups=["x" * 100] * 100),
}


@pytest.mark.requirement("AUTH-03", "AUTH-04", "AUTH-05", "AUTH-07", "AUTH-08")
@pytest.mark.parametrize("name", BAD)
async def test_invalid_token_gets_refusal_of_unknown_key_and_leaves_no_trace(
    authenticator: Authenticator,
    provider: IdentityProvider,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    caplog.set_level(logging.DEBUG, "mcp")
    token = BAD[name](provider)
    assert await refusal(authenticator, b"Bearer " + token.encode()) == await refusal(authenticator, UNKNOWN)
    assert not await ExternalIdentity.objects.aexists()
    assert f"{provider.issuer}/evil" not in provider.asked
    assert not any(part and part in caplog.text for part in token.split(".") if len(part) > 20)
    assert await comes_in(authenticator, provider.token())


async def test_refusal_names_metadata_and_scopes(
    authenticator: Authenticator, provider: IdentityProvider
) -> None:
    *_, headers = await refusal(authenticator, b"Bearer " + provider.token(exp=1).encode())
    assert dict(headers)[b"www-authenticate"].decode() == (
        f'Bearer realm="mcp", error="invalid_token", resource_metadata="{METADATA}", '
        'scope="mcp mcp:tools mcp:resources mcp:prompts"'
    )


@pytest.mark.requirement("AUTH-18")
async def test_cached_token_expires_at_its_expiry_time(
    authenticator: Authenticator, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Stopped(int(time.time()))
    monkeypatch.setattr(authentication, "time", clock)
    ends = clock.now + 3
    token = provider.token(exp=ends - verification.SKEW_SECONDS)
    header = b"Bearer " + token.encode()
    principal = await comes_in(authenticator, token)
    assert principal.expires_at == ends
    clock.passed = 2.9
    assert authenticator.known(header, local=False) is principal
    clock.passed = 3.1
    assert authenticator.known(header, local=False) is None


async def test_token_signature_is_verified_once(
    authenticator: Authenticator, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = provider.token()
    first = await comes_in(authenticator, token)
    authenticator.forget()
    monkeypatch.delattr(verification.jwt, "decode_complete")
    assert (await comes_in(authenticator, token)).key == first.key


async def test_provider_token_is_refused_without_configured_provider(
    external: Any, authenticator: Authenticator, provider: IdentityProvider
) -> None:
    external(AUTH="required")
    await refusal(authenticator, b"Bearer " + provider.token().encode())
    assert not provider.asked
