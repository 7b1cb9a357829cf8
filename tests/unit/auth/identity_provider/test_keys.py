"""Keys of an identity provider: discovery, rotation, withdrawal, outage, fetch limits."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app.auth import authentication
from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.identity_provider import keys as key_ring
from mcp_app.auth.identity_provider import provider as own_provider
from mcp_app.auth.identity_provider.metadata import metadata_addresses
from mcp_app.auth.principal import Principal
from mcp_app.protocol.errors import Unauthorized, Unavailable
from tests.servers.identity_provider import IdentityProvider, public_jwk

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


class Clock:
    """A clock for key fetches; it advances only by ``later``."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def later(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Replace the clock of the key ring alone."""
    moved = Clock()
    monkeypatch.setattr(key_ring, "time", moved)
    # Verify every token again.
    monkeypatch.setattr(authentication, "RECHECK_SECONDS", -1.0)
    yield moved
    own_provider._verifier = None


async def comes_in(authenticator: Authenticator, token: str) -> Principal:
    return await authenticator.authenticate(b"Bearer " + token.encode(), local=False)


async def settled(provider: IdentityProvider) -> None:
    """Wait until no fetch is running."""
    assert own_provider._verifier is not None
    while own_provider._verifier.keys._arriving is not None:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("issuer", "addresses"),
    [
        (
            "https://id.example",
            [
                "https://id.example/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server",
            ],
        ),
        ("https://id.example/", ["https://id.example/.well-known/openid-configuration"]),
        (
            "https://id.example/realms/main",
            [
                "https://id.example/realms/main/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server/realms/main",
                "https://id.example/.well-known/openid-configuration/realms/main",
            ],
        ),
    ],
)
def test_metadata_addresses_cover_both_well_known_forms(issuer: str, addresses: list[str]) -> None:
    assert list(metadata_addresses(issuer))[: len(addresses)] == addresses


@pytest.mark.parametrize(
    "path",
    ["/.well-known/oauth-authorization-server/realms/main", "/realms/main/.well-known/openid-configuration"],
)
async def test_keys_are_discovered_for_issuer_with_path(external: Any, path: str) -> None:
    with IdentityProvider("/realms/main") as provider:
        provider.metadata_path = path
        external(OAUTH_ISSUER=provider.issuer)
        assert await comes_in(Authenticator("external"), provider.token())


async def test_configured_jwks_url_skips_metadata(
    external: Any, authenticator: Authenticator, provider: IdentityProvider
) -> None:
    external(OAUTH_JWKS_URL=provider.jwks_url)
    assert await comes_in(authenticator, provider.token())
    assert provider.asked == ["/keys"]


def speaks_for_another(provider: IdentityProvider) -> None:
    provider.metadata = {"issuer": provider.issuer + "/"}


def names_no_keys(provider: IdentityProvider) -> None:
    provider.metadata = {"jwks_uri": None}


def names_a_file(provider: IdentityProvider) -> None:
    provider.metadata = {"jwks_uri": "file:///etc/passwd"}


def names_another_port(provider: IdentityProvider) -> None:
    provider.metadata = {"jwks_uri": "http://127.0.0.1:9/keys"}


def has_no_keys(provider: IdentityProvider) -> None:
    provider.published = []


def has_a_shared_key_only(provider: IdentityProvider) -> None:
    provider.published = [{"kty": "oct", "kid": "rsa", "alg": "HS256", "k": "c2VjcmV0"}]


def has_a_short_key_only(provider: IdentityProvider) -> None:
    provider.published = [public_jwk("short", kid="rsa")]


def has_a_key_for_encryption_only(provider: IdentityProvider) -> None:
    provider.published = [public_jwk("rsa", use="enc")]


def has_broken_keys_only(provider: IdentityProvider) -> None:
    provider.published = [{"kty": "RSA", "kid": "rsa", "n": "!", "e": 3}, {"kty": "EC"}, 7]  # type: ignore[list-item]


def is_garbage(provider: IdentityProvider) -> None:
    provider.raw = b"<html>"


def is_endless(provider: IdentityProvider) -> None:
    provider.raw = b'{"keys": [' + b'"x",' * 200_000


def is_away(provider: IdentityProvider) -> None:
    provider.away = True


@pytest.mark.parametrize(
    "spoil",
    [
        speaks_for_another,
        names_no_keys,
        names_a_file,
        names_another_port,
        has_no_keys,
        has_a_shared_key_only,
        has_a_short_key_only,
        has_a_key_for_encryption_only,
        has_broken_keys_only,
        is_garbage,
        is_endless,
        is_away,
    ],
)
async def test_missing_usable_keys_return_503_until_provider_recovers(
    authenticator: Authenticator, provider: IdentityProvider, clock: Clock, spoil: Any
) -> None:
    spoil(provider)
    token = provider.token()
    with pytest.raises(Unavailable, match="identity provider") as refused:
        await comes_in(authenticator, token)
    assert refused.value.http_status == 503
    assert "127.0.0.1" not in refused.value.message
    asked = len(provider.asked)
    with pytest.raises(Unavailable):
        await comes_in(authenticator, token)
    assert len(provider.asked) == asked, "nobody is asked again at once"
    provider.published, provider.metadata = [public_jwk("rsa")], {}
    provider.raw, provider.away = None, False
    clock.later(key_ring.COLD_RETRY_SECONDS + 1)
    assert await comes_in(authenticator, token)


async def test_private_address_is_fetched_only_if_egress_allows(
    external: Any, authenticator: Authenticator, provider: IdentityProvider
) -> None:
    external(EGRESS_ALLOW=[])
    with pytest.raises(Unavailable):
        await comes_in(authenticator, provider.token())
    assert provider.asked == []


async def test_new_provider_key_is_accepted_without_restart(
    authenticator: Authenticator, provider: IdentityProvider, clock: Clock
) -> None:
    assert await comes_in(authenticator, provider.token())
    provider.published.append(public_jwk("rsa-2"))
    clock.later(key_ring.RETRY_SECONDS + 1)
    assert await comes_in(authenticator, provider.token("rsa-2"))
    assert await comes_in(authenticator, provider.token("rsa"))


async def test_withdrawn_key_invalidates_its_tokens_after_refresh(
    authenticator: Authenticator, provider: IdentityProvider, clock: Clock
) -> None:
    token = provider.token()
    assert await comes_in(authenticator, token)
    provider.published = [public_jwk("rsa-2")]
    clock.later(key_ring.FRESH_SECONDS + 1)
    assert await comes_in(authenticator, token), "a refresh keeps nobody waiting"
    await settled(provider)
    with pytest.raises(Unauthorized):
        await comes_in(authenticator, token)
    assert await comes_in(authenticator, provider.token("rsa-2"))


async def test_flood_of_unknown_keys_triggers_one_fetch_and_blocks_no_other_token(
    external: Any, authenticator: Authenticator, provider: IdentityProvider, clock: Clock
) -> None:
    external(OAUTH_JWKS_URL=provider.jwks_url)
    good = provider.token()
    assert await comes_in(authenticator, good)
    asked = provider.asked.count("/keys")
    clock.later(key_ring.RETRY_SECONDS + 1)
    provider.open_gate.clear()
    made_up = [provider.token(header={"kid": secrets.token_hex(8)}) for _ in range(50)]
    flood = [asyncio.ensure_future(comes_in(authenticator, token)) for token in made_up]
    # More requests wait than the database has threads; a known key is verified all the same.
    for _ in range(3):
        assert await comes_in(authenticator, good)
    provider.open_gate.set()
    ends = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(end) for end in ends} == {Unauthorized}
    for token in made_up[:5]:
        with pytest.raises(Unauthorized):
            await comes_in(authenticator, token)
    assert provider.asked.count("/keys") == asked + 1
    clock.later(key_ring.RETRY_SECONDS + 1)
    with pytest.raises(Unauthorized):
        await comes_in(authenticator, made_up[0])
    assert provider.asked.count("/keys") == asked + 2


async def test_tokens_stay_valid_for_a_day_of_provider_outage(
    authenticator: Authenticator, provider: IdentityProvider, clock: Clock
) -> None:
    before = provider.token()
    assert await comes_in(authenticator, before)
    provider.away = True
    clock.later(key_ring.STALE_SECONDS - 60)
    assert await comes_in(authenticator, before)
    assert await comes_in(authenticator, provider.token(sub="not seen yet"))
    await settled(provider)
    with pytest.raises(Unauthorized):
        await comes_in(authenticator, provider.token("rsa-2"))
    clock.later(120)
    with pytest.raises(Unavailable):
        await comes_in(Authenticator("external"), before)
    provider.away = False
    clock.later(key_ring.RETRY_SECONDS)
    assert await comes_in(Authenticator("external"), before)
