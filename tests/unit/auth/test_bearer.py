"""From an Authorization header to a principal: what is let in, refused, remembered and forgotten."""

from __future__ import annotations

import asyncio
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
from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.auth.services import issue_api_key, revoke_api_key
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
async def test_only_this_machine_needs_no_credential_and_only_if_so_configured(
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


async def test_a_wrong_credential_is_refused_even_from_this_machine() -> None:
    with pytest.raises(Unauthorized):
        await Authenticator("loopback").authenticate(b"Bearer mcp_nonsense", local=True)


async def test_a_key_shows_its_user_and_counts_as_used(header: bytes, key: ApiKey, user: Any) -> None:
    authenticator = Authenticator("required")
    before = time.time()
    principal = await authenticator.authenticate(header, local=False)
    assert (principal.name, principal.user_id, principal.api_key_id) == ("ada", user.pk, key.pk)
    assert authenticator.used.keys() == {key.pk}
    assert before <= authenticator.used[key.pk] <= time.time()


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER ", b"Bearer   "])
async def test_the_scheme_is_read_without_case_and_blanks(header: bytes, scheme: bytes) -> None:
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
async def test_a_spoiled_key_gets_the_same_answer_as_an_unknown_one(
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
async def test_a_malformed_credential_gets_the_same_answer_as_an_unknown_one(authorization: bytes) -> None:
    assert await refusal(authorization) == await refusal(b"Bearer mcp_" + b"x" * 43)


async def refusal(authorization: bytes) -> tuple[Any, ...]:
    with pytest.raises(Unauthorized) as refused:
        await Authenticator("required").authenticate(authorization, local=False)
    error = refused.value
    return error.http_status, error.code, error.message, error.data, error.headers


async def test_a_spelling_that_is_too_long_is_refused_although_its_key_is_good(header: bytes) -> None:
    padded = header.replace(b" ", b" " * authentication.MAX_KEY_HEADER)
    with pytest.raises(Unauthorized):
        await Authenticator("required").authenticate(padded, local=False)


async def test_a_verified_credential_needs_no_second_look(header: bytes) -> None:
    authenticator = Authenticator("required")
    assert authenticator.known(header, local=False) is None
    principal = await authenticator.authenticate(header, local=False)
    assert authenticator.known(header, local=False) is principal


async def test_a_refused_credential_is_not_remembered() -> None:
    authenticator = Authenticator("required")
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(b"Bearer mcp_nonsense", local=False)
    assert authenticator.known(b"Bearer mcp_nonsense", local=False) is None


async def test_a_revoked_key_is_refused_after_the_recheck_time_without_any_broadcast(
    header: bytes, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator = Authenticator("required")
    monkeypatch.setattr(authentication, "RECHECK_SECONDS", -1.0)
    await authenticator.authenticate(header, local=False)
    await sync_to_async(revoke_api_key)(key=key)
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(header, local=False)


async def test_forgetting_has_every_credential_looked_up_again(header: bytes, key: ApiKey) -> None:
    authenticator = Authenticator("required")
    await authenticator.authenticate(header, local=False)
    await sync_to_async(revoke_api_key)(key=key)
    authenticator.forget()
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(header, local=False)


async def test_a_user_whose_key_is_a_uuid_is_forgotten_by_a_broadcast_which_has_its_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user: Any = uuid4()
    principal = Principal("user:x/client:1", "ada", frozenset(), user_id=user)
    monkeypatch.setitem(tokens._KINDS, "uuid_", lambda token: principal)
    authenticator, header = Authenticator("required"), b"Bearer uuid_token"
    await authenticator.authenticate(header, local=False)
    authenticator.forget({"user": str(uuid4())})
    assert authenticator.known(header, local=False) is principal
    authenticator.forget({"user": str(user)})
    assert authenticator.known(header, local=False) is None


async def test_a_look_up_that_was_overtaken_by_forgetting_is_not_remembered(header: bytes) -> None:
    authenticator = Authenticator("required")
    looking = asyncio.create_task(authenticator.authenticate(header, local=False))
    await asyncio.sleep(0)
    authenticator.forget()
    assert (await looking).name == "ada"
    assert authenticator.known(header, local=False) is None


async def test_a_remembered_key_ends_at_its_very_expiry(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_what_is_remembered_is_bounded(header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_no_credential_outlives_its_request(header: bytes) -> None:
    authenticator = Authenticator("required")
    await authenticator.authenticate(header, local=False)
    assert authenticator._known
    assert not [key for key in authenticator._known if b"mcp_" in key]


async def test_without_a_database_the_server_is_unavailable_and_a_known_caller_still_served(
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


async def test_without_a_database_a_verified_key_is_trusted_for_a_minute_and_not_after_a_change(
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
        # Of an authorization server, of another service, and a key of ours that is not whole.
        b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjoibWNwIn0.",
        b"ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        b"mcp_",
    ],
)
async def test_a_token_that_somebody_else_made_opens_nothing(token: bytes) -> None:
    assert await refusal(b"Bearer " + token) == await refusal(b"Bearer mcp_" + b"x" * 43)


@pytest.mark.requirement("AUTH-13")
async def test_no_scope_is_asked_for_and_none_that_outlives_its_user() -> None:
    headers = (await refusal(b"Bearer mcp_nonsense"))[-1]
    assert headers
    assert not [value for _, value in headers if b"scope" in value or b"offline_access" in value]
