"""Notifies by a POST to a person's address, signed as Standard Webhooks says, through the guarded fetch."""

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
from mcp_app.execution.questions.sealing import Unsealed, key_ring
from mcp_app.notices.needs import Attention, arguments_of, whole_url
from mcp_app.notices.outcome import Undelivered
from mcp_app.protocol.http.transport_security import names_loopback

SECONDS: Final = 10.0
LONGEST_ANSWER: Final = 64 * 1024
PREFIX: Final = "whsec_"
_SEALED_FOR: Final = "webhook"


def new_secret() -> str:
    """256 random bits, in the form that libraries of receivers take."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def sealed(secret: str) -> str:
    """What is stored: a copy of the database signs nothing."""
    return key_ring(conf.get(), _SEALED_FOR).seal(secret.encode())


def objection_to(address: str) -> str:
    """Why nothing is sent to an address; "" when something may be. Asks no network."""
    try:
        target = read(address, _policy(address))
    except (EgressError, ValueError) as error:
        return str(error)
    if target.scheme != "https" and not names_loopback(target.authority.encode()):
        return "Give an https address: anybody on the way could read and change what is sent."
    return ""


def send(address: str, secret: str, needs: Sequence[Attention]) -> None:
    """One POST for all of them; raises Undelivered."""
    if problem := objection_to(address):
        raise Undelivered(problem)
    body = orjson.dumps({"type": "needs_you", "needs": [_shown(need) for need in needs]})
    identity = hashlib.sha256("\n".join(need.key for need in needs).encode()).hexdigest()[:32]
    try:
        sent = Sent(signed(secret, f"msg_{identity}", int(time.time()), body), body)
        answer = asyncio.run(fetch(address, _policy(address), sent=sent))
    except (EgressError, Unsealed) as error:
        raise Undelivered(str(error)) from None
    if not 200 <= answer.status < 300:
        raise Undelivered(f"The address answered {answer.status}.")


def signed(secret: str, identity: str, at: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent it, when, and that it has seen it already."""
    key = base64.b64decode(key_ring(conf.get(), _SEALED_FOR).open(secret).decode().removeprefix(PREFIX))
    signature = hmac.digest(key, b"%b.%d.%b" % (identity.encode(), at, body), "sha256")
    return {
        "Content-Type": "application/json",
        "Webhook-Id": identity,
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": f"v1,{base64.b64encode(signature).decode()}",
    }


def _shown(need: Attention) -> dict[str, str]:
    shown = {"kind": need.kind, "key": need.key, "text": need.text, "url": whole_url(need.url)}
    arguments = arguments_of(need)
    return {**shown, "arguments": arguments} if arguments else shown


def _policy(address: str) -> Policy:
    """No redirect, little time, any answer; the port that the address names."""
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
