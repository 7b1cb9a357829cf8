"""Rate limit on wrong keys per address: 429 after the limit; a valid key always works."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest

from mcp_app.auth import tokens, wrong_keys
from mcp_app.auth.authentication import Authenticator
from mcp_app.protocol.errors import TooManyRequests, Unauthorized

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
LIMIT = 3


@pytest.fixture
def authenticator() -> Authenticator:
    return Authenticator("required", LIMIT)


async def refused(
    authenticator: Authenticator, key: str = "x", address: str = "192.0.2.1"
) -> Unauthorized | TooManyRequests:
    with pytest.raises((Unauthorized, TooManyRequests)) as found:
        await authenticator.authenticate(b"Bearer mcp_%b" % key.encode(), local=False, address=address)
    assert isinstance(found.value, Unauthorized | TooManyRequests)
    return found.value


async def test_wrong_keys_above_limit_return_429_with_retry_after(
    authenticator: Authenticator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    answers = [await refused(authenticator, f"key-{number}") for number in range(LIMIT + 3)]
    assert [answer.http_status for answer in answers] == [401] * LIMIT + [429] * 3
    assert 0 < int(dict(answers[-1].headers)[b"retry-after"]) <= 60
    told = [record for record in caplog.records if "wrong API keys" in record.message]
    assert len(told) == 1
    assert "192.0.2.1" in told[0].getMessage()
    assert "key-" not in told[0].getMessage()


async def test_valid_key_works_after_wrong_keys_from_same_address(
    authenticator: Authenticator, header: bytes
) -> None:
    for number in range(LIMIT + 5):
        await refused(authenticator, f"key-{number}")
    found = await authenticator.authenticate(header, local=False, address="192.0.2.1")
    assert found.name == "ada"


async def test_wrong_keys_are_counted_per_ipv4_address_and_ipv6_network(authenticator: Authenticator) -> None:
    for number in range(LIMIT):
        await refused(authenticator, "x", f"2001:db8::{number:x}")
    assert (await refused(authenticator, "x", "2001:db8::ffff")).http_status == 429
    assert (await refused(authenticator, "x", "2001:db8:0:1::1")).http_status == 401
    for address in ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"):
        await refused(authenticator, "x", address)
    assert (await refused(authenticator, "x", "::ffff:192.0.2.1")).http_status == 429
    assert (await refused(authenticator, "x", "192.0.2.2")).http_status == 401


async def test_repeated_wrong_key_is_looked_up_again_only_after_forget(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    find = tokens.find
    monkeypatch.setattr(tokens, "find", lambda token: (looked.append(token), find(token))[1])
    for _ in range(LIMIT + 10):
        await refused(authenticator)
    assert len(looked) == LIMIT + 1
    authenticator.forget()
    await refused(authenticator)
    assert len(looked) == LIMIT + 2


async def test_wrong_key_memory_is_bounded_and_stores_no_key(authenticator: Authenticator) -> None:
    for number in range(LIMIT + wrong_keys.REMEMBERED + 50):
        with suppress(TooManyRequests):
            authenticator._wrong.count(b"Bearer mcp_%d" % number, "192.0.2.1")
    assert 0 < len(authenticator._wrong._until) <= wrong_keys.REMEMBERED
    assert not [key for key in authenticator._wrong._until if b"mcp_" in key]


@pytest.mark.parametrize(("limit", "address"), [(0, "192.0.2.1"), (LIMIT, "")])
async def test_wrong_keys_are_not_counted_without_limit_or_address(limit: int, address: str) -> None:
    authenticator = Authenticator("required", limit)
    for _ in range(LIMIT + 3):
        assert (await refused(authenticator, "x", address)).http_status == 401


async def test_missing_key_is_not_counted_as_wrong_key(authenticator: Authenticator) -> None:
    for _ in range(LIMIT + 3):
        with pytest.raises(Unauthorized):
            await authenticator.authenticate(None, local=False, address="192.0.2.1")
