"""The identity provider's keys in this process, fetched in the background and cached during outages.

A token names its key by a key id (``kid``). An unknown id may belong to a new key, or an attacker may have
invented it. It therefore triggers a fetch, but at most one per 30 seconds.
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

from mcp_app.auth.identity_provider.metadata import KeysAway
from mcp_app.protocol.errors import Unavailable

# Allowed algorithms by key type and curve. "none" and shared-key algorithms are excluded: with HS256, anyone
# could sign with the public key (RFC 8725).
ALGORITHMS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("RSA", ""): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}
# Only public members are read, in case a provider publishes private ones.
_MEMBERS: Final = ("kty", "crv", "n", "e", "x", "y")
MAX_KEYS: Final = 100
# Seconds until fetched keys are fetched again. A key that the provider withdrew stays valid this long.
FRESH_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 30.0
# Retry interval before the first success. It is shorter, because no login is possible without keys and the
# provider may have just started.
COLD_RETRY_SECONDS: Final = 5.0
STALE_SECONDS: Final = 86_400.0
NO_KEYS: Final = "The server cannot reach its identity provider now. Try again in a moment."

log = logging.getLogger("mcp.auth")


@dataclass(frozen=True, slots=True)
class Key:
    """A public key and the algorithms that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    members: tuple[tuple[str, str], ...]

    def of(self, algorithm: str) -> jwt.PyJWK:
        """Return the key as an object of the JWT library."""
        return _parsed(self.members, algorithm)


@lru_cache(maxsize=4 * MAX_KEYS)
def _parsed(members: tuple[tuple[str, str], ...], algorithm: str) -> jwt.PyJWK:
    return jwt.PyJWK(dict(members), algorithm)


class Keys:
    """The keys of one provider or machine, fetched in the background.

    ``fetch`` returns the key set or raises KeysAway. ``owner`` is the owner's name in the log.
    """

    def __init__(
        self, fetch: Callable[[], Awaitable[list[Any]]], owner: str = "the identity provider"
    ) -> None:
        self._fetch = fetch
        self._owner = owner
        self._keys: tuple[Key, ...] = ()
        self._lock = threading.Lock()
        self._arriving: Future[None] | None = None
        self._fetched_at = self._ask_at = float("-inf")
        self._error = ""

    def arriving(self, kid: str | None) -> Future[None] | None:
        """Return the future to await before a token with the key id ``kid`` can be checked, or None.

        Starts a fetch if the cached keys are old or do not include ``kid``. Cached keys stay usable during
        the fetch.
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
        """Return the keys that could have signed a token with this key id and algorithm.

        Raises Unavailable if the last successful fetch is older than STALE_SECONDS.
        """
        if time.monotonic() > self._fetched_at + STALE_SECONDS:
            raise Unavailable(NO_KEYS)
        fitting = tuple(key for key in self._keys if algorithm in key.algorithms)
        if kid is None:
            # A provider with one key may omit the key id. With several keys, trying each one would be
            # expensive.
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
        # A running future cannot be cancelled by the requests that wait for it.
        arriving.set_running_or_notify_cancel()
        # A separate thread is used, so that a slow provider blocks neither the event loop nor a database
        # thread.
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
            log.warning("The keys of %s could not be fetched: %s", self._owner, away)
            self._error = str(away)
            return ()

    def _replace(self, keys: tuple[Key, ...]) -> None:
        if not keys:
            return
        if {key.kid for key in keys} != {key.kid for key in self._keys}:
            log.info("Usable keys of %s: %d", self._owner, len(keys))
        with self._lock:
            self._keys, self._fetched_at, self._error = keys, time.monotonic(), ""


def usable(published: Iterable[Any]) -> tuple[Key, ...]:
    """Return the published keys that can verify signatures. Other keys are skipped.

    Raises KeysAway if no usable key remains.
    """
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
