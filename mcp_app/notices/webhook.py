"""Notifications by a POST request to an address that the user chose.

The requests are signed as Standard Webhooks defines, and sent through the guarded fetch.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import orjson

from mcp_app import conf
from mcp_app.egress import EgressError, Policy, Sent, fetch
from mcp_app.egress.policy import networks
from mcp_app.egress.target import read
from mcp_app.notices.attention import Attention, absolute_url, arguments_of
from mcp_app.notices.outcome import Undelivered
from mcp_app.protocol.http.transport_security import names_loopback
from mcp_app.sealing import Unsealed, key_ring

SECONDS: Final = 10.0
LONGEST_ANSWER: Final = 64 * 1024
PREFIX: Final = "whsec_"
_SEALED_FOR: Final = "webhook"


def new_secret() -> str:
    """Return a new secret of 256 random bits, in the format that libraries for Standard Webhooks expect."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def sealed(secret: str) -> str:
    """Return the secret encrypted for storage.

    A copy of the database is therefore not enough to sign notifications.
    """
    return key_ring(conf.get(), _SEALED_FOR).seal(secret.encode())


def objection_to(address: str) -> str:
    """Return the reason why an address is not allowed, or "". Sends no request."""
    try:
        target = read(address, _policy(address))
    except (EgressError, ValueError) as error:
        return str(error)
    if target.scheme != "https" and not names_loopback(target.authority.encode()):
        return "Use an https address. Over http, others can read and change the notifications."
    return ""


def send(address: str, secret: str, needs: Sequence[Attention]) -> None:
    """Send all tasks in one POST request. Raises Undelivered if the request fails."""
    if problem := objection_to(address):
        raise Undelivered(problem)
    body = orjson.dumps({"type": "needs_you", "needs": [_shown(need) for need in needs]})
    identity = hashlib.sha256("\n".join(need.key for need in needs).encode()).hexdigest()[:32]
    try:
        sent = Sent("POST", signed(secret, f"msg_{identity}", int(time.time()), body), body)
        answer = asyncio.run(fetch(address, _policy(address), sent=sent))
    except (EgressError, Unsealed) as error:
        raise Undelivered(str(error)) from None
    if not 200 <= answer.status < 300:
        raise Undelivered(f"The address responded with status {answer.status}.")


def signed(secret: str, identity: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers with which a receiver verifies sender and time and recognizes duplicates."""
    key = base64.b64decode(key_ring(conf.get(), _SEALED_FOR).open(secret).decode().removeprefix(PREFIX))
    signature = hmac.digest(key, b"%b.%d.%b" % (identity.encode(), at, body), "sha256")
    return {
        "Content-Type": "application/json",
        "Webhook-Id": identity,
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": f"v1,{base64.b64encode(signature).decode()}",
    }


def _shown(need: Attention) -> dict[str, str]:
    shown = {"kind": need.kind, "key": need.key, "text": need.text, "url": absolute_url(need.url)}
    arguments = arguments_of(need)
    return {**shown, "arguments": arguments} if arguments else shown


def _policy(address: str) -> Policy:
    """Return the policy for the request.

    It forbids redirects, sets a short timeout, and allows the port of the address.
    """
    port = urlsplit(address).port
    return Policy(
        ports=frozenset({443, 80, *(() if port is None else (port,))}),
        allow=networks(conf.get().egress_allow),
        content_types=None,
        max_redirects=0,
        max_raw_bytes=LONGEST_ANSWER,
        max_bytes=LONGEST_ANSWER,
        seconds=SECONDS,
    )
