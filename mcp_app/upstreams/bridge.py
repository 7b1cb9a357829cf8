"""The bridge as other processes see it: its token, its failures, and the state of the commands."""

from __future__ import annotations

from typing import Any, Final

import orjson

from mcp_app import conf, sealing
from mcp_app.egress import EgressError, Request, Secrets, exchange
from mcp_app.egress.policy import Policy
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.upstream_commands import STATUS_URL, TOKEN_PURPOSE

NOT_RUNNING: Final = "cannot be reached, because the bridge does not run: start manage.py mcp_upstreams."
_OTHER_KEY: Final = "cannot be reached, because the bridge has another secret key. Restart it."
_STATUS_SECONDS: Final = 3.0
_STATUS_BYTES: Final = 4 * 1024 * 1024
# The status of a process that did not answer ``server/discover``: it is of the legacy era, or slow.
SILENT: Final = 504
# The others are of a process that ended during a request, and of one that cannot be started now.
_KINDS: Final = {502: Kind.BROKEN_OFF, 503: Kind.UNREACHABLE, SILENT: Kind.TIMEOUT}


def secrets() -> Secrets:
    """Return the token of the bridge as the secrets of a request."""
    token = sealing.token(conf.get(), TOKEN_PURPOSE)
    return Secrets(headers=(("Authorization", f"Bearer {token}"),), key=TOKEN_PURPOSE)


def fault_of(status: int, body: bytes) -> UpstreamFault | None:
    """Return the failure that the bridge itself reports, or None for an answer of the command."""
    if status == 401:
        return UpstreamFault(Kind.UNREACHABLE, _OTHER_KEY, status=status, sent=False)
    kind = _KINDS.get(status)
    if kind is None:
        return None
    try:
        text = str(orjson.loads(body)["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        text = "The bridge failed."
    what = "broke off its answer." if kind is Kind.BROKEN_OFF else "cannot be used."
    return UpstreamFault(kind, f"{what} {text}", status=status, sent=kind is Kind.BROKEN_OFF)


async def status() -> dict[str, Any]:
    """Return the state of each command. Raise UpstreamFault if the bridge does not answer."""
    policy = Policy(content_types=None, max_bytes=_STATUS_BYTES, seconds=_STATUS_SECONDS)
    request, socket = Request("GET", STATUS_URL), conf.get().upstream_socket
    try:
        async with exchange(request, policy, secrets(), socket=socket) as answer:
            body = await answer.read()
            if answer.status != 200:
                raise fault_of(answer.status, body) or UpstreamFault(Kind.NOT_MCP, "cannot be reached.")
    except EgressError:
        raise UpstreamFault(Kind.UNREACHABLE, NOT_RUNNING, sent=False) from None
    found: dict[str, Any] = orjson.loads(body)
    return found
