"""The sealed state that a client stores between the requests of a call.

It is valid for the same call only.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from typing import Any

import orjson

from mcp_app.conf import Settings
from mcp_app.database import clock
from mcp_app.execution.questions.inputs import FREE_ROUNDS, Inputs
from mcp_app.protocol.errors import InternalError, Unavailable
from mcp_app.protocol.features import input_required
from mcp_app.sealing import Unsealed, key_ring
from mcp_app.streams.base import StreamsError
from mcp_app.streams.gateway import Streams

PURPOSE = "requestState"
# Tolerance for time differences: all processes use the database's time, but only roughly.
CLOCK_SECONDS = 60

log = logging.getLogger("mcp.questions")


def inputs_of(method: str, params: dict[str, Any], principal: str, settings: Settings) -> Inputs:
    """Return the inputs in a request: the state of earlier runs and the client's new answers.

    Raise InvalidParams for an invalid state. A state is valid for its principal, for the same request and
    for a limited time (STATE-02).
    """
    responses, token = input_required.responses(params), input_required.state(params)
    bound = _digest(method, params)
    if token is None:
        return Inputs(bound=bound, responses=responses)
    try:
        sealed = _opened(token, settings)
        _check(sealed, principal, bound)
    except Unsealed as cause:
        log.warning("requestState for %s refused: %s", method, cause)
        raise input_required.invalid_state() from None
    inputs = Inputs.recalled(sealed["remembered"], responses)
    inputs.nonce = sealed["nonce"] if inputs.single_use else ""
    inputs.round = sealed["nonce"] if inputs.rounds <= FREE_ROUNDS else ""
    return inputs


def _opened(token: str, settings: Settings) -> dict[str, Any]:
    if len(token) > settings.state_bytes:
        raise Unsealed(f"it has {len(token)} characters")
    sealed: dict[str, Any] = orjson.loads(key_ring(settings, PURPOSE).open(token))
    return sealed


def _check(sealed: dict[str, Any], principal: str, bound: str) -> None:
    if sealed["until"] < clock.timestamp():
        raise Unsealed("it has expired")
    if sealed["principal"] != principal:
        raise Unsealed(f"it was made for {sealed['principal']}")
    if sealed["remembered"]["bound"] != bound:
        raise Unsealed("it belongs to another request")


def _digest(method: str, params: dict[str, Any]) -> str:
    """Return the digest of the request, without answers and without members added by the transport."""
    asked = [method, params.get("name"), params.get("uri"), params.get("arguments", {})]
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


def sealed(inputs: Inputs, principal: str, settings: Settings) -> str:
    """Return the sealed state for the next request. Raise InternalError if it is too large (STATE-05)."""
    token = key_ring(settings, PURPOSE).seal(
        orjson.dumps(
            {
                "principal": principal,
                "until": int(clock.timestamp()) + settings.state_seconds,
                "nonce": secrets.token_hex(12),
                "remembered": inputs.remembered(),
            }
        )
    )
    if len(token) > settings.state_bytes:
        log.error("The state of a call has %d bytes, which exceeds MCP['STATE_BYTES']", len(token))
        raise InternalError("The answers so far are more than can be remembered until the next one.")
    return token


async def spend(streams: Streams, inputs: Inputs, settings: Settings) -> None:
    """Mark a single-use state as used (STATE-04).

    Raise InvalidParams if any process has already used it, and Unavailable if Redis is down.
    """
    if not inputs.nonce:
        return
    try:
        first = await streams.windows.hit(f"state/{inputs.nonce}", 1, settings.state_seconds + CLOCK_SECONDS)
    except StreamsError as error:
        raise Unavailable from error
    if not first:
        log.warning("requestState refused: already used")
        raise input_required.invalid_state()


def result(inputs: Inputs, principal: str, settings: Settings) -> dict[str, Any]:
    """Return the result of a run with open questions. Raise InternalError if the state is too large."""
    return input_required.result(inputs.requests, "" if inputs.kept else sealed(inputs, principal, settings))
