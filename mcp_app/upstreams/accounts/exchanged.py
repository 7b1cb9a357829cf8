"""Accounts for which the token of the caller is exchanged (RFC 8693). No row belongs to them."""

from __future__ import annotations

from typing import Final

from mcp_app.credentials import services as credentials
from mcp_app.credentials.exchange import Subject
from mcp_app.credentials.services import CredentialRefused
from mcp_app.egress import Secrets
from mcp_app.upstreams.server import ExchangedAccount

_UNREADABLE: Final = "The login of the caller cannot be read."


async def secrets_for(account: ExchangedAccount, url: str) -> Secrets:
    """Return the secret parts of a request to ``url`` in the name of a caller. Raise CredentialRefused."""
    return await credentials.exchanged(account.credential, url, _subject(account))


async def refused(account: ExchangedAccount, url: str, used: Secrets, status: int) -> bool:
    """Return True if another attempt gets another token, after a server refused ``used``."""
    if status != 401:
        return False
    try:
        return await credentials.exchange_refused(account.credential, url, _subject(account), used)
    except CredentialRefused:
        return False


def _subject(account: ExchangedAccount) -> Subject:
    subject = account.subject()
    if subject is None:
        raise CredentialRefused(_UNREADABLE)
    return subject
