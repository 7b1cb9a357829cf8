"""From an Authorization header to a principal: acceptance, refusal, caching and eviction."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from mcp_app.auth import authentication, tokens
from mcp_app.auth.api_keys import issue_api_key, revoke_api_key
from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.challenges import unauthorized
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.models import ApiKey
from mcp_app.protocol.errors import Unauthorized, Unavailable
from tests.unit.auth.stopped_clock import Stopped

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(
    ("mode", "local", "is_let_in"),
    [
        ("loopback", True, True),
        ("loopback", False, False),
        ("required", True, False),
        ("required", False, False),
    ],
)
async def test_missing_credential_is_accepted_only_locally_in_loopback_mode(
    mode: str, local: bool, is_let_in: bool
) -> None:
    authenticator = Authenticator(mode)
    assert (authenticator.known(None, local=local) is LOOPBACK) == is_let_in
    if is_let_in:
        assert await authenticator.authenticate(None, local=local) is LOOPBACK
        return
    with pytest.raises(Unauthorized, match="Bearer <API key>") as refused:
        await authenticator.authenticate(None, local=local)
    assert refused.value.headers == ((b"www-authenticate", b'Bearer realm="mcp"'),)


async def test_wrong_credential_is_refused_for_local_request() -> None:
    with pytest.raises(Unauthorized):
        await Authenticator("loopback").authenticate(b"Bearer mcp_nonsense", local=True)


async def test_valid_key_returns_its_user_and_is_marked_used(header: bytes, key: ApiKey, user: Any) -> None:
    authenticator = Authenticator("required")
    before = time.time()
    principal = await authenticator.authenticate(header, local=False)
    assert (principal.name, principal.user_id, principal.api_key_id) == ("ada", user.pk, key.pk)
    assert authenticator.used.keys() == {key.pk}
    assert before <= authenticator.used[key.pk] <= time.time()


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER ", b"Bearer   "])
async def test_auth_scheme_is_case_insensitive(header: bytes, scheme: bytes) -> None:
    spelled = scheme + header.partition(b" ")[2]
    assert (await Authenticator("required").authenticate(spelled, local=False)).name == "ada"


def revoked(key: ApiKey) -> None:
    revoke_api_key(key=key)


def expired(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def inactive(key: ApiKey) -> None:
    key.user.is_active = False
    key.user.save()


def deleted(key: ApiKey) -> None:
    key.delete()


@pytest.mark.requirement("AUTH-03")
@pytest.mark.parametrize("spoil", [revoked, expired, inactive, deleted])
async def test_unusable_key_gets_refusal_of_unknown_key(
    spoil: Callable[[ApiKey], None], header: bytes, key: ApiKey
) -> None:
    await sync_to_async(spoil)(key)
    assert await refusal(header) == await refusal(b"Bearer mcp_" + b"x" * 43)


@pytest.mark.parametrize(
    "authorization",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic dXNlcjpwYXNz",
        b"Token mcp_abc",
        b"mcp_abc",
        b"Bearer \xff\xfe",
        b"Bearer mcp_" + b"x" * 9000,
        b"Bearer a b c",
    ],
)
async def test_malformed_credential_gets_refusal_of_unknown_key(authorization: bytes) -> None:
    assert await refusal(authorization) == await refusal(b"Bearer mcp_" + b"x" * 43)


async def refusal(authorization: bytes) -> tuple[Any, ...]:
    with pytest.raises(Unauthorized) as refused:
        await Authenticator("required").authenticate(authorization, local=False)
    error = refused.value
    return error.http_status, error.code, error.message, error.data, error.headers


async def test_oversized_header_is_refused_with_valid_key(header: bytes) -> None:
    padded = header.replace(b" ", b" " * authentication.MAX_KEY_HEADER)
    with pytest.raises(Unauthorized):
        await Authenticator("required").authenticate(padded, local=False)


async def test_verified_credential_is_cached(header: bytes) -> None:
    authenticator = Authenticator("required")
    assert authenticator.known(header, local=False) is None
    principal = await authenticator.authenticate(header, local=False)
    assert authenticator.known(header, local=False) is principal


async def test_refused_credential_is_not_cached() -> None:
    authenticator = Authenticator("required")
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(b"Bearer mcp_nonsense", local=False)
    assert authenticator.known(b"Bearer mcp_nonsense", local=False) is None


async def test_revoked_key_is_refused_after_recheck_interval_without_broadcast(
    header: bytes, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator = Authenticator("required")
    monkeypatch.setattr(authentication, "RECHECK_SECONDS", -1.0)
    await authenticator.authenticate(header, local=False)
    await sync_to_async(revoke_api_key)(key=key)
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(header, local=False)


async def test_forget_reverifies_every_credential(header: bytes, key: ApiKey) -> None:
    authenticator = Authenticator("required")
    await authenticator.authenticate(header, local=False)
    await sync_to_async(revoke_api_key)(key=key)
    authenticator.forget()
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(header, local=False)


async def test_forget_matches_user_with_uuid_key_by_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user: Any = uuid4()
    principal = Principal("user:x/client:1", "ada", frozenset(), user_id=user)
    monkeypatch.setitem(tokens.KINDS, "uuid_", lambda token: principal)
    authenticator, header = Authenticator("required"), b"Bearer uuid_token"
    await authenticator.authenticate(header, local=False)
    authenticator.forget({"user": str(uuid4())})
    assert authenticator.known(header, local=False) is principal
    authenticator.forget({"user": str(user)})
    assert authenticator.known(header, local=False) is None


async def test_lookup_overtaken_by_forget_is_not_cached(header: bytes) -> None:
    authenticator = Authenticator("required")
    looking = asyncio.create_task(authenticator.authenticate(header, local=False))
    await asyncio.sleep(0)
    authenticator.forget()
    assert (await looking).name == "ada"
    assert authenticator.known(header, local=False) is None


async def test_cached_key_expires_at_its_expiry_time(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = timezone.now() + timedelta(hours=1)
    _, secret = await sync_to_async(issue_api_key)(user=user, name="short", expires_at=moment)
    clock = Stopped(moment.timestamp() - 4)
    monkeypatch.setattr(authentication, "time", clock)
    authenticator = Authenticator("required")
    header = b"Bearer " + secret.encode()
    principal = await authenticator.authenticate(header, local=False)
    assert principal.expires_at == moment.timestamp()
    for passed, is_known in ((0.0, True), (3.999, True), (4.001, False), (5.0, False)):
        clock.passed = passed
        assert (authenticator.known(header, local=False) is not None) == is_known


async def test_credential_cache_is_bounded(header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "KNOWN_LIMIT", 2)
    authenticator = Authenticator("required")
    spellings = [header, header.replace(b"Bearer", b"bearer"), header.replace(b"Bearer", b"BEARER")]
    for spelling in spellings:
        await authenticator.authenticate(spelling, local=False)
    assert [authenticator.known(spelling, local=False) is not None for spelling in spellings] == [
        False,
        False,
        True,
    ]


async def test_credential_cache_stores_no_secret(header: bytes) -> None:
    authenticator = Authenticator("required")
    await authenticator.authenticate(header, local=False)
    assert authenticator._known
    secret = header.removeprefix(b"Bearer ")
    for part in (secret, secret.removeprefix(b"mcp_")):
        assert part in pickle.dumps(header)
        assert part not in pickle.dumps(authenticator._known)


async def test_database_outage_returns_503_to_unknown_and_serves_cached_callers(
    header: bytes, without_keys: Callable[[], AbstractContextManager[None]]
) -> None:
    authenticator = Authenticator("required")
    await authenticator.authenticate(header, local=False)
    outage = without_keys()
    await sync_to_async(outage.__enter__)()
    try:
        assert authenticator.known(header, local=False) is not None
        with pytest.raises(Unavailable, match="database") as refused:
            await authenticator.authenticate(b"Bearer mcp_other", local=False)
        assert refused.value.http_status == 503
        assert "mcp_app" not in refused.value.message
    finally:
        await sync_to_async(outage.__exit__)(None, None, None)


async def test_verified_key_works_during_database_outage_until_forgotten(
    header: bytes,
    without_keys: Callable[[], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authenticator = Authenticator("required")
    monkeypatch.setattr(authentication, "RECHECK_SECONDS", -1.0)
    principal = await authenticator.authenticate(header, local=False)
    assert authenticator.known(header, local=False) is None
    outage = without_keys()
    await sync_to_async(outage.__enter__)()
    try:
        assert await authenticator.authenticate(header, local=False) is principal
        assert authenticator.known(header, local=False) is principal, "nobody is asked again for a moment"
        monkeypatch.setattr(authentication, "TRUST_SECONDS", -1.0)
        (known,) = authenticator._known.values()
        known.recheck_at = 0.0
        with pytest.raises(Unavailable):
            await authenticator.authenticate(header, local=False)
        monkeypatch.undo()
        authenticator.forget()
        with pytest.raises(Unavailable):
            await authenticator.authenticate(header, local=False)
    finally:
        await sync_to_async(outage.__exit__)(None, None, None)


@pytest.mark.requirement("AUTH-08")
@pytest.mark.parametrize(
    "token",
    [
        # A token of an authorization server, one of another service, and an incomplete API key.
        b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjoibWNwIn0.",
        b"ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        b"mcp_",
    ],
)
async def test_foreign_token_gets_refusal_of_unknown_key(token: bytes) -> None:
    assert await refusal(b"Bearer " + token) == await refusal(b"Bearer mcp_" + b"x" * 43)


@pytest.mark.requirement("AUTH-13")
@pytest.mark.parametrize("metadata", ["", "https://mcp.example/.well-known/oauth-protected-resource/mcp"])
def test_challenge_requests_no_offline_access(metadata: str) -> None:
    """Scopes are named only beside the metadata of an authorization server that grants them."""
    ((name, challenge),) = unauthorized("No.", "invalid_token", metadata).headers
    assert name == b"www-authenticate"
    assert (b'scope="mcp' in challenge) == (b"scope" in challenge) == bool(metadata)
    assert b"offline_access" not in challenge
