"""Public keys of machines, entered by an administrator or published at an address of the machine.

Published keys are fetched by the guarded client, before the token endpoint opens its transaction. The number
of fetches does not depend on the number of assertions that arrive.
"""

from __future__ import annotations

import threading
from concurrent.futures import TimeoutError as NotInTime
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
import orjson

from mcp_app import conf
from mcp_app.auth.identity_provider.keys import Key, Keys, usable
from mcp_app.auth.identity_provider.metadata import ALL_SECONDS, KeysAway, Provider, fetch_keys
from mcp_app.egress.policy import networks
from mcp_app.oauth.models import Client
from mcp_app.protocol.errors import Unavailable

MAX_REGISTERED: Final = 5
MAX_CHARACTERS: Final = 16_000
MAX_ADDRESS: Final = 500
AWAY: Final = "The machine's keys cannot be fetched now. Try again in a moment."
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
# Limits the requests that wait for keys at the same time, so that an attacker cannot occupy all threads.
_waiting = threading.BoundedSemaphore(4)
_fetched: dict[str, Keys] = {}


class KeysRefused(Exception):
    """A refusal of an administrator's input. Its text is shown to the administrator."""


def registered(text: str) -> str:
    """Return the JWK set to store for an administrator's input.

    The input is a JWK set, a single JWK or a public key in PEM. Raises KeysRefused.
    """
    if len(text) > MAX_CHARACTERS:
        raise KeysRefused(f"No more than {MAX_CHARACTERS} characters.")
    if "PRIVATE KEY" in text:
        raise KeysRefused("This is a private key. It stays with the machine: paste its public key.")
    found = [_from_pem(text)] if text.lstrip().startswith("-----BEGIN") else _from_json(text)
    if not 1 <= len(found) <= MAX_REGISTERED:
        raise KeysRefused(f"1 to {MAX_REGISTERED} keys.")
    for key in found:
        if isinstance(key, dict) and _PRIVATE & key.keys():
            raise KeysRefused("This has a private key in it. It stays with the machine: leave it out.")
        try:
            usable([key])
        except KeysAway:
            words = "A key must be RSA of at least 2048 bits, P-256, P-384, P-521 or Ed25519, for signatures."
            raise KeysRefused(words) from None
    return orjson.dumps({"keys": found}).decode()


def _from_pem(text: str) -> Any:
    for algorithm in ("RS256", "ES256", "EdDSA"):
        try:
            kind = jwt.get_algorithm_by_name(algorithm)
            said: Any = kind.to_jwk(kind.prepare_key(text.strip().encode()), as_dict=True)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        # The library sets key_ops and alg, which would restrict the use of the key.
        return {name: value for name, value in said.items() if name not in ("key_ops", "alg")}
    raise KeysRefused("This PEM is no public key that can be used.")


def _from_json(text: str) -> list[Any]:
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise KeysRefused("Paste a JWK set, or a public key as PEM (-----BEGIN PUBLIC KEY-----).") from None
    if isinstance(said, dict):
        said = said.get("keys", [said])
    if not isinstance(said, list):
        raise KeysRefused("A JWK set has a list of keys.")
    return said


def check_address(address: str) -> None:
    """Check the address at which a machine publishes its keys. Raises KeysRefused."""
    try:
        parts = urlsplit(address)
        _ = parts.port  # Raises ValueError if the port is out of range.
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise KeysRefused("An https address without a user name.")
    if len(address) > MAX_ADDRESS or not address.isascii() or not address.isprintable() or " " in address:
        raise KeysRefused(f"An address of at most {MAX_ADDRESS} plain characters.")


def bring(client: Client, kid: str | None) -> None:
    """Fetch the published keys of a machine, if a fetch could return the key ``kid``.

    Must not run in a transaction. Raises Unavailable if the fetch takes too long.
    """
    arriving = _keys_at(client.jwks_uri).arriving(kid) if client.jwks_uri else None
    if arriving is None:
        return
    if not _waiting.acquire(blocking=False):
        raise Unavailable(AWAY)
    try:
        arriving.result(ALL_SECONDS + 1)
    except NotInTime:
        raise Unavailable(AWAY) from None
    finally:
        _waiting.release()


def find(client: Client, kid: str | None, algorithm: str) -> tuple[Key, ...]:
    """Return the keys of a machine that could have signed an assertion with this key id and algorithm.

    Raises Unavailable if the last fetch failed.
    """
    if client.jwks_uri:
        try:
            return _keys_at(client.jwks_uri).find(kid, algorithm)
        except Unavailable:
            raise Unavailable(AWAY) from None
    known = usable(orjson.loads(client.jwks)["keys"])
    return tuple(key for key in known if algorithm in key.algorithms and (not kid or key.kid in (None, kid)))


def _keys_at(address: str) -> Keys:
    reachable = networks(conf.get().egress_allow)
    source = Provider(address, address, frozenset(), reachable)
    if address not in _fetched:
        _fetched[address] = Keys(partial(fetch_keys, source), owner=f"the machine at {address}")
    return _fetched[address]
