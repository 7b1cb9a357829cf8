"""Rate limits of the API, counted over all processes.

Requests are counted per principal. Unauthenticated requests are counted per network address.
"""

from __future__ import annotations

import math
from typing import Any

from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from mcp_app import conf
from mcp_app.protocol.principal_key import Bound, share_of
from mcp_app.protocol.rate_window import client_network
from mcp_app.streams.blocking.counting import count

WINDOW_SECONDS = 60.0


class Throttle(BaseThrottle):
    """A throttle. It counts every request before the permissions are checked."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Return True, or raise Throttled with the number of seconds to wait."""
        if request.auth is None:
            count_address(request)
        else:
            _count(share_of(Bound.API_REQUESTS, request.auth.key), conf.get().api_requests_per_minute)
        return True


def count_address(request: Request) -> None:
    """Count an unauthenticated request. Raises Throttled if its network is above the limit."""
    _count(
        f"api/from/{client_network(request.META.get('REMOTE_ADDR') or 'unknown')}",
        conf.get().api_refusals_per_minute,
    )


def _count(key: str, limit: int) -> None:
    if limit and (wait := count(key, limit, WINDOW_SECONDS)):
        raise Throttled(math.ceil(wait))
