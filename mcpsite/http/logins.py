"""Counts wrong passwords: a right one forgives those of its own account only."""

from __future__ import annotations

from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from django.http import HttpRequest


class OwnFailuresHandler(AxesDatabaseHandler):  # type: ignore[misc]  # The library has no types.
    """Attempts in the database, counted by address.

    The library's handler would forget all failures of an address at a right password. Whoever has an account
    could then guess the passwords of others without end, with a login of their own after every nine guesses.
    """

    def reset_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Delete the failures of this account from this address; return their number."""
        name = get_client_username(request, credentials)
        address: Any = request
        return int(self.reset_attempts(ip_address=address.axes_ip_address, username=name) if name else 0)
