"""Counting of wrong passwords. A correct password resets only the failures of the same account."""

from __future__ import annotations

from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from django.http import HttpRequest


class OwnFailuresHandler(AxesDatabaseHandler):  # type: ignore[misc]  # The library has no types.
    """A handler that stores attempts in the database and counts them by address.

    The library's handler resets all failures of an address after a correct password. With it, the owner of
    one account could guess the passwords of others without limit, by logging in after every nine guesses.
    """

    def reset_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Delete the failures of this account from this address, and return their number."""
        name = get_client_username(request, credentials)
        address: Any = request
        return int(self.reset_attempts(ip_address=address.axes_ip_address, username=name) if name else 0)
