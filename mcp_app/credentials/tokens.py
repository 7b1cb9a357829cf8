"""Access tokens of machines (client credentials, RFC 6749 section 4.4) and of callers (exchange, RFC 8693).

A token is kept until a minute before it expires, sealed in Redis for all processes. Only one request at a
time asks for a new token, over all processes.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import orjson

from mcp_app import conf
from mcp_app.credentials import exchange as exchanges
from mcp_app.credentials.exchange import Subject
from mcp_app.credentials.kinds import basic
from mcp_app.egress import EgressError, Request, Secrets, exchange
from mcp_app.egress.policy import Policy, entered
from mcp_app.sealing import Unsealed, key_ring
from mcp_app.streams.blocking import shared_values

SECONDS: Final = 10.0
# The lease outlasts the request, so that no other process asks meanwhile. A process that was killed blocks
# others no longer than this.
LEASE_SECONDS: Final = 12.0
MAX_BYTES: Final = 64 * 1024
# A token is replaced this long before it expires.
EARLY_SECONDS: Final = 60.0
# The lifetime of a token whose answer does not state one.
USUAL_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.1
_SEALED_FOR: Final = "credential-token"
ERROR: Final = re.compile(r"[a-z_]{1,60}")
TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")


class TokenRefused(Exception):
    """A token request without a token. The text contains no secret.

    ``is_of_caller`` is True if the token of the caller was refused, and False for faults of the settings or
    the server.
    """

    def __init__(self, text: str, *, is_of_caller: bool = False) -> None:
        super().__init__(text)
        self.is_of_caller = is_of_caller


@dataclass(frozen=True, slots=True, repr=False)
class Grant:
    """The right to get tokens. ``key`` changes with the secret and with every setting of the request.

    ``subject`` is the token that is exchanged, or None for client credentials.
    """

    key: str
    url: str
    client_id: str
    client_secret: str
    parameters: tuple[tuple[str, str], ...]
    subject: Subject | None = None

    @property
    def name(self) -> str:
        """The name of the shared token and of its lock."""
        return f"credential-token/{self.key}"


@dataclass(frozen=True, slots=True, repr=False)
class _Kept:
    token: str
    until: float


_kept: dict[str, _Kept] = {}
_asking: dict[tuple[Any, str], asyncio.Task[str]] = {}
MAX_KEPT: Final = 1_000


async def token(grant: Grant) -> str:
    """Return a valid access token. Raises TokenRefused."""
    kept = _kept.get(grant.key)
    if kept is not None and kept.until > time.time():
        return kept.token
    # One task of this process asks, and all callers wait for it. A cancelled caller does not cancel it.
    key = (asyncio.get_running_loop(), grant.key)
    task = _asking.get(key)
    if task is None:
        task = _asking[key] = asyncio.create_task(_new(grant))
        task.add_done_callback(lambda _: _asking.pop(key, None))
    return await asyncio.shield(task)


async def drop(grant: Grant, refused: str | None) -> bool:
    """Forget the kept token if it is ``refused`` (None: whatever it is). Return True: a new one may work."""
    shared = await asyncio.to_thread(_shared, grant)
    if shared is not None and refused in (None, shared.token):
        await asyncio.to_thread(shared_values.drop, grant.name)
    # Last, because another call would keep the shared token again.
    kept = _kept.get(grant.key)
    if kept is not None and refused in (None, kept.token):
        del _kept[grant.key]
    return True


async def _new(grant: Grant) -> str:
    holder, until = secrets.token_hex(8), time.monotonic() + LEASE_SECONDS + 1
    while True:
        shared = await asyncio.to_thread(_shared, grant)
        if shared is not None:
            return _keep(grant, shared)
        if await asyncio.to_thread(shared_values.acquire, grant.name, holder, LEASE_SECONDS):
            break
        if time.monotonic() > until:
            raise TokenRefused("Another process waits for the token server.")
        await asyncio.sleep(_POLL_SECONDS)
    try:
        # Another process may have stored a token and released the lease since the look above.
        shared = await asyncio.to_thread(_shared, grant)
        if shared is not None:
            return _keep(grant, shared)
        made = await _asked(grant)
        sealed = key_ring(conf.get(), _SEALED_FOR).seal(orjson.dumps([grant.key, made.token, made.until]))
        left = made.until - time.time()
        await asyncio.to_thread(shared_values.put, grant.name, sealed.encode(), left)
        return _keep(grant, made)
    finally:
        await asyncio.to_thread(shared_values.release, grant.name, holder)


def _keep(grant: Grant, kept: _Kept) -> str:
    _kept[grant.key] = kept
    while len(_kept) > MAX_KEPT:
        del _kept[next(iter(_kept))]
    return kept.token


def _shared(grant: Grant) -> _Kept | None:
    sealed = shared_values.get(grant.name)
    if sealed is None:
        return None
    try:
        key, found, until = orjson.loads(key_ring(conf.get(), _SEALED_FOR).open(sealed.decode()))
    except (Unsealed, ValueError):
        return None
    # A value that was copied to another name is not used: tokens of two callers are never mixed up.
    return _Kept(found, until) if key == grant.key and until > time.time() else None


async def _asked(grant: Grant) -> _Kept:
    """Request a token, first with the secret in the header, then in the body (RFC 6749 section 2.3.1)."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _granted(grant)
    except TimeoutError:
        raise TokenRefused(f"The token server did not answer within {SECONDS:g} seconds.") from None


async def _granted(grant: Grant) -> _Kept:
    form = (*_form(grant), *grant.parameters)
    header = basic(quote_plus(grant.client_id), quote_plus(grant.client_secret))
    status, answer = await posted(grant.url, form, Secrets(headers=(("Authorization", header),)))
    if status == 401 or (status == 400 and answer.get("error") in _in_body(grant)):
        own = (("client_id", grant.client_id), ("client_secret", grant.client_secret))
        status, answer = await posted(grant.url, (*form, *own), Secrets())
    found, kind = answer.get("access_token"), str(answer.get("token_type", "bearer"))
    if status != 200 or not isinstance(found, str):
        stated = answer.get("error")
        error = stated if isinstance(stated, str) and ERROR.fullmatch(stated) else ""
        code = f" ({error})" if error else ""
        is_of_caller = grant.subject is not None and error in exchanges.OF_CALLER
        raise TokenRefused(f"The token server answered {status}{code}.", is_of_caller=is_of_caller)
    if kind.lower() != "bearer" or not TOKEN.fullmatch(found):
        raise TokenRefused("The token server returned a token that is not a bearer token.")
    if grant.subject is not None and (problem := exchanges.objection_to(answer, grant.subject)):
        raise TokenRefused(f"The token server {problem}")
    return _Kept(found, time.time() + lifetime(answer.get("expires_in")))


def _form(grant: Grant) -> exchanges.Form:
    if grant.subject is None:
        return (("grant_type", "client_credentials"),)
    if grant.subject.ends <= time.time():
        raise TokenRefused(exchanges.EXPIRED, is_of_caller=True)
    return exchanges.form(grant.subject, grant.url)


def _in_body(grant: Grant) -> tuple[str, ...]:
    """Return the errors after which the secret is sent in the body."""
    # An exchange has the error "invalid_request" for a bad token of the caller.
    return ("invalid_client",) if grant.subject else ("invalid_client", "invalid_request")


def lifetime(stated: Any) -> float:
    """Return the seconds for which a token is used, by the lifetime that its answer states."""
    try:
        seconds = float(stated) if stated is not None and not isinstance(stated, bool) else USUAL_SECONDS
    except (TypeError, ValueError):
        seconds = USUAL_SECONDS
    if math.isnan(seconds):  # "nan" is a number for float().
        seconds = USUAL_SECONDS
    seconds = min(max(seconds, 1.0), 30 * 86_400.0)
    return seconds - EARLY_SECONDS if seconds > 2 * EARLY_SECONDS else seconds / 2


async def posted(
    url: str, form: tuple[tuple[str, str], ...], own: Secrets, policy: Policy | None = None
) -> tuple[int, dict[str, Any]]:
    """Send a form. Return the status and the JSON object of the answer. Raises TokenRefused without one."""
    headers = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
    request = Request("POST", url, headers, urlencode(form).encode())
    try:
        policy = policy or entered(seconds=SECONDS, max_bytes=MAX_BYTES)
        async with exchange(request, policy, own) as answer:
            body = await answer.read()
            status = answer.status
    except EgressError as error:
        raise TokenRefused(str(error)) from None
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        said = None
    return status, said if isinstance(said, dict) else {}
