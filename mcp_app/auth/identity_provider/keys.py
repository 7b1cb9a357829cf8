"""The provider's keys in this process: fetched in the background and cached during outages.

A token names its key (``kid``). An unknown one may be new or invented by an attacker: it triggers a fetch,
but not more than one per 30 seconds.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jwt

from mcp_app.auth.identity_provider.provider import KeysAway
from mcp_app.protocol.errors import Unavailable

# Never "none" or a shared key: with HS256, the public key would be enough to sign (RFC 8725).
ALGORITHMS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("RSA", ""): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}
# Public members only, in case a provider publishes private ones.
_MEMBERS: Final = ("kty", "crv", "n", "e", "x", "y")
MAX_KEYS: Final = 100
# A withdrawn key stays valid this long.
FRESH_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 30.0
# Shorter without keys, because no login is possible: the provider may have just started.
COLD_RETRY_SECONDS: Final = 5.0
STALE_SECONDS: Final = 86_400.0
NO_KEYS: Final = "The server cannot reach its identity provider now. Try again in a moment."

log = logging.getLogger("mcp.auth")


@dataclass(frozen=True, slots=True)
class Key:
    """A public key and its allowed algorithms."""

    kid: str | None
    algorithms: frozenset[str]
    members: tuple[tuple[str, str], ...]

    def of(self, algorithm: str) -> jwt.PyJWK:
        """Return the key in the library's form."""
        return _parsed(self.members, algorithm)


@lru_cache(maxsize=4 * MAX_KEYS)
def _parsed(members: tuple[tuple[str, str], ...], algorithm: str) -> jwt.PyJWK:
    return jwt.PyJWK(dict(members), algorithm)


class Keys:
    """The keys of one provider; ``fetch`` raises KeysAway. ``whose`` names the provider in the log."""

    def __init__(
        self, fetch: Callable[[], Awaitable[list[Any]]], whose: str = "the identity provider"
    ) -> None:
        self._fetch = fetch
        self._whose = whose
        self._keys: tuple[Key, ...] = ()
        self._lock = threading.Lock()
        self._arriving: Future[None] | None = None
        self._fetched_at = self._ask_at = float("-inf")
        self._error = ""

    def arriving(self, kid: str | None) -> Future[None] | None:
        """Return the future to await before a token with this key can be checked, or None.

        Starts a fetch if the keys are old or unknown. Known keys stay valid during a refresh.
        """
        now = time.monotonic()
        with self._lock:
            known = now < self._fetched_at + STALE_SECONDS and self._has(kid)
            if known and now < self._fetched_at + FRESH_SECONDS:
                return None
            if self._arriving is None and now >= self._ask_at:
                self._ask_at = now + (RETRY_SECONDS if self._keys else COLD_RETRY_SECONDS)
                self._start()
            return None if known else self._arriving

    def find(self, kid: str | None, algorithm: str) -> tuple[Key, ...]:
        """Return the keys that may have signed a token. Raises Unavailable without fresh enough keys."""
        if time.monotonic() > self._fetched_at + STALE_SECONDS:
            raise Unavailable(NO_KEYS)
        fitting = tuple(key for key in self._keys if algorithm in key.algorithms)
        if kid is None:
            # A provider with one key need not name it. With several, trying each would be expensive.
            return fitting if len(fitting) == 1 else ()
        return tuple(key for key in fitting if key.kid == kid)

    def state(self) -> tuple[tuple[Key, ...], float | None, str]:
        """Return the keys, their age in seconds, and the error of the last fetch."""
        with self._lock:
            age = time.monotonic() - self._fetched_at if self._keys else None
            return self._keys, age, self._error

    def _has(self, kid: str | None) -> bool:
        return kid is None or any(key.kid == kid for key in self._keys)

    def _start(self) -> None:
        arriving: Future[None] = Future()
        # Prevents waiters from cancelling it.
        arriving.set_running_or_notify_cancel()
        # A separate thread: a slow provider must block neither the event loop nor a database thread.
        threading.Thread(target=self._run, args=(arriving,), name="provider-keys", daemon=True).start()
        self._arriving = arriving

    def _run(self, arriving: Future[None]) -> None:
        try:
            self._replace(asyncio.run(self._got()))
        finally:
            with self._lock:
                self._arriving = None
            arriving.set_result(None)

    async def _got(self) -> tuple[Key, ...]:
        try:
            return usable(await self._fetch())
        except KeysAway as away:
            log.warning("The keys of %s could not be fetched: %s", self._whose, away)
            self._error = str(away)
            return ()

    def _replace(self, keys: tuple[Key, ...]) -> None:
        if not keys:
            return
        if {key.kid for key in keys} != {key.kid for key in self._keys}:
            log.info("Usable keys of %s: %d", self._whose, len(keys))
        with self._lock:
            self._keys, self._fetched_at, self._error = keys, time.monotonic(), ""


def usable(published: Iterable[Any]) -> tuple[Key, ...]:
    """Return the keys that can verify signatures. Raises KeysAway if there are none. Others are skipped."""
    keys = tuple(key for each in list(published)[:MAX_KEYS] if (key := _key(each)) is not None)
    if not keys:
        raise KeysAway("It publishes no key that can be used.")
    return keys


def _key(said: Any) -> Key | None:
    if not isinstance(said, dict) or said.get("use", "sig") != "sig":
        return None
    operations, kid = said.get("key_ops", ["verify"]), said.get("kid")
    if not isinstance(operations, list) or "verify" not in operations or not isinstance(kid, str | None):
        return None
    members = tuple((name, said[name]) for name in _MEMBERS if isinstance(said.get(name), str))
    kind = dict(members)
    fitting = ALGORITHMS.get((kind.get("kty", ""), kind.get("crv", "")), frozenset())
    algorithms = fitting & {said["alg"]} if isinstance(said.get("alg"), str) else fitting
    key = Key(kid, algorithms, members)
    try:
        return key if all(_is_long_enough(key.of(name)) for name in algorithms) and algorithms else None
    except jwt.PyJWTError:
        return None


def _is_long_enough(key: jwt.PyJWK) -> bool:
    return not key.Algorithm.check_key_length(key.key)
