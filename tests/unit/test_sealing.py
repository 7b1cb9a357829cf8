"""Sealed tokens: authorized opening, rejection, confidentiality."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.test import override_settings

from mcp_app.conf import Settings
from mcp_app.sealing import KeyRing, Unsealed, key_ring

OLD, NEW = "the old secret of these tests", "the new secret of these tests"
SETTINGS = Settings(state_keys=(NEW,))


def test_token_round_trips_and_hides_payload() -> None:
    ring = KeyRing([NEW], "a")
    token = ring.seal(b"payload")
    assert ring.open(token) == b"payload"
    assert token.startswith("v1.")
    assert "payload" not in token
    assert ring.seal(b"payload") != token


@pytest.mark.requirement("STATE-01", "STATE-06")
def test_modified_token_is_rejected() -> None:
    ring = KeyRing([NEW], "a")
    token = ring.seal(b"payload")
    changed = [token + "-TAMPERED", token + "A", token + "!", token[:-1], token[:20], "", "v1", "v1..", "é"]
    for at, character in enumerate(token):
        changed.append(token[:at] + ("A" if character != "A" else "B") + token[at + 1 :])
    for other in changed:
        with pytest.raises(Unsealed):
            ring.open(other)


@pytest.mark.requirement("STATE-03")
def test_key_rotation_accepts_outstanding_tokens() -> None:
    before, during, after = KeyRing([OLD], "a"), KeyRing([NEW, OLD], "a"), KeyRing([NEW], "a")
    token = before.seal(b"x")
    assert during.open(token) == b"x"
    assert after.open(during.seal(b"y")) == b"y"
    with pytest.raises(Unsealed, match="no longer"):
        after.open(token)


def test_keys_differ_by_purpose() -> None:
    with pytest.raises(Unsealed):
        KeyRing([NEW], "a").open(KeyRing([NEW], "b").seal(b"x"))


@pytest.mark.requirement("STATE-03")
def test_key_ring_uses_state_keys_or_django_secret_keys() -> None:
    given = key_ring(SETTINGS, "a")
    assert KeyRing([NEW], "a").open(given.seal(b"x")) == b"x"
    with override_settings(SECRET_KEY=OLD):
        token = key_ring(replace(SETTINGS, state_keys=()), "a").seal(b"x")
    with override_settings(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=[OLD]):
        assert key_ring(replace(SETTINGS, state_keys=()), "a").open(token) == b"x"
    with override_settings(SECRET_KEY=NEW), pytest.raises(Unsealed):
        key_ring(replace(SETTINGS, state_keys=()), "a").open(token)
