"""Counting of wrong passwords: a right one resets only its own account's failures."""

from __future__ import annotations

from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from django.http import HttpRequest


class OwnFailuresHandler(AxesDatabaseHandler):  # type: ignore[misc]  # The library has no types.
    """A handler with attempts in the database, counted by address.

    The library's handler resets all failures of an address after a right password. The owner of an account
    could guess other passwords without limit, with a login after every nine guesses.
    """

    def reset_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Delete the failures of this account from this address; return their number."""
        name = get_client_username(request, credentials)
        address: Any = request
        return int(self.reset_attempts(ip_address=address.axes_ip_address, username=name) if name else 0)
