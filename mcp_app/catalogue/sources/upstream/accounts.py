"""The account of a caller at a server, and the question for a missing connection."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, Final

from django.urls import NoReverseMatch, reverse

from mcp_app.auth.identity_provider import caller_tokens
from mcp_app.auth.own_addresses import origin
from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.sources.upstream.known import KnownUpstream
from mcp_app.observability import correlation
from mcp_app.protocol.client.faults import InsufficientScope
from mcp_app.protocol.errors import UrlElicitationRequired
from mcp_app.protocol.principal_key import actor_of, caller_ids
from mcp_app.protocol.versions import V2025_11_25, is_modern
from mcp_app.upstreams.accounts import use
from mcp_app.upstreams.accounts.use import Standing
from mcp_app.upstreams.server import Account, ExchangedAccount

# After the user has agreed to open the page, the call waits for the connection.
WAIT_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.5
_PAGE: Final = "mcp_connections"
_NO_LOGIN: Final = (
    "exchanges the login of its caller, and this client has not logged in at the identity provider. Connect "
    "the client with a login there instead of an API key or a test."
)
_LOGIN_OVER: Final = (
    "exchanges the login of its caller, and the login of this background call is not stored any more. Log in "
    "again, and repeat the call."
)
_NEEDS: Final = {
    Standing.MISSING: "needs a connection to your account.",
    Standing.ATTENTION: "cannot use the connection to your account any more.",
}


async def with_account(found: KnownUpstream, context: Any) -> KnownUpstream:
    """Return the server as the caller of ``context`` uses it. Ask for a missing connection.

    Raise ToolError if there is none, and UrlElicitationRequired for clients of 2025-11-25 that open pages.
    """
    if found.token_exchange:
        return await _with_login(found, context)
    if not found.user_connections:
        return found
    user = _user_of(found, context)
    standing, account = await use.find(found.server.pk, user)
    if account is None:
        account = await _asked(found, user, _NEEDS[standing], context)
    return _as(found, account)


async def with_more_scopes(found: KnownUpstream, fault: InsufficientScope, context: Any) -> KnownUpstream:
    """Return the server with an account that has the missing scopes, after a question to the user.

    Raise ToolError without one, and UrlElicitationRequired like ``with_account``. A call asks once, and never
    for scopes that the last login asked for.
    """

    async def scopes() -> list[str]:
        return [*fault.scopes]

    if not fault.can_be_asked_for:
        raise ToolError(more_scopes(found, fault))
    # With the answer of the client, the call may run again from its start.
    asked = await context.aonce("upstream-scopes", scopes)
    if not {*fault.scopes} <= {*asked}:
        raise ToolError(more_scopes(found, fault))
    needs = f"needs more permissions for your account: {', '.join(asked)}."
    account = await _asked(found, _user_of(found, context), needs, context, found.server.account)
    return _as(found, account)


def more_scopes(found: KnownUpstream, fault: InsufficientScope) -> str:
    """Return the text for a request that was refused because its account lacks scopes."""
    then = where(found)
    if not fault.can_be_asked_for:
        then = (
            f"The last login asked for them already. {then} Allow all permissions there, or ask the operator "
            "of that server."
        )
    return f"The server {found.server.name} {fault} {then}"


def _as(found: KnownUpstream, account: Account) -> KnownUpstream:
    return replace(found, server=replace(found.server, account=account))


async def for_completion(found: KnownUpstream) -> KnownUpstream:
    """Return the server as the caller of a completion uses it. Raise ToolError without a connection."""
    if found.token_exchange:
        raise ToolError(f"The server {found.server.name} completes nothing, because it exchanges logins.")
    if not found.user_connections:
        return found
    key = correlation.principal()
    user, actor = caller_ids(key).user, actor_of(key)
    account = (await use.find(found.server.pk, user))[1] if user and not actor else None
    if account is None:
        raise ToolError(f"The server {found.server.name} {_NEEDS[Standing.MISSING]}")
    return _as(found, account)


async def _with_login(found: KnownUpstream, context: Any) -> KnownUpstream:
    """Return the server with the login of the caller, which requests exchange for a token of the server."""
    principal, name = context.principal, found.server.name
    user, call = _user_of(found, context), correlation.background_call()
    sealed = principal.caller_token
    if not sealed and call:
        sealed = await asyncio.to_thread(caller_tokens.of_call, call)
    if not sealed:
        raise ToolError(f"The server {name} {_LOGIN_OVER if call else _NO_LOGIN}")
    # A session at the server belongs to one user and one client of that user.
    account = ExchangedAccount(
        str(user), principal.key, found.token_exchange, caller_tokens.opener(sealed, principal.key)
    )
    return _as(found, account)


def where(found: KnownUpstream) -> str:
    """Return the sentence that says where the caller connects an account."""
    page = page_of(found.server.pk)
    return f"Connect the account at {page}." if page else "Connect the account on the page My connections."


def page_of(pk: int) -> str:
    """Return the address of the page of a server's connection, or "" if there is none."""
    try:
        path = reverse(_PAGE)
    except NoReverseMatch:
        return ""
    base = origin()
    return f"{base}{path}?server={pk}" if base else ""


def _user_of(found: KnownUpstream, context: Any) -> Any:
    principal, name = context.principal, found.server.name
    if principal.user_id is None:
        text = "uses the account of each user, and this client has not logged in as a user."
        raise ToolError(f"The server {name} {text}")
    if actor_of(principal.key):
        # An administrator who runs a call as another user must not act in that user's name elsewhere.
        raise ToolError(f"The server {name} uses the account of each user: only that user can call it.")
    return principal.user_id


async def _asked(
    found: KnownUpstream, user: Any, needs: str, context: Any, before: Account | None = None
) -> Account:
    """Ask the user to open the page, and return an account that differs from ``before``. Raise ToolError."""
    page, needs = page_of(found.server.pk), f"The server {found.server.name} {needs}"
    step = "connect" if before is None else "permissions"
    number = f"{step}-{found.server.pk}"
    # Links to http pages are not sent as questions (ELI-10): on loopback, the text has the address.
    if not page.startswith("https://") or not context.client.can("elicitation_url"):
        raise ToolError(f"{needs} {where(found)}")
    if context.protocol_version == V2025_11_25:
        asked = {"mode": "url", "url": page, "message": needs, "elicitationId": number}
        raise UrlElicitationRequired(f"{needs} {where(found)}", data={"elicitations": [asked]})
    if not is_modern(context.protocol_version):
        raise ToolError(f"{needs} {where(found)}")
    answer = await context.aelicit_url(needs, page, number, key=f"upstream-{step}")
    if answer.action == "accept":
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            _, account = await use.find(found.server.pk, user)
            if account not in (None, before):
                return account
            context.raise_if_cancelled()
            await asyncio.sleep(_POLL_SECONDS)
    raise ToolError(f"{needs} {where(found)}")
