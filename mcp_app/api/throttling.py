"""Rate limits per principal, and per address for unauthenticated requests, shared by all processes."""

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
    """A throttle that counts every request before its permissions are checked."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Return True. Raises Throttled with the seconds to wait."""
        if request.auth is None:
            count_address(request)
        else:
            _count(share_of(Bound.API_REQUESTS, request.auth.key), conf.get().api_requests_per_minute)
        return True


def count_address(request: Request) -> None:
    """Count an unauthenticated request. Raises Throttled."""
    _count(
        f"api/from/{client_network(request.META.get('REMOTE_ADDR') or 'unknown')}",
        conf.get().api_refusals_per_minute,
    )


def _count(key: str, limit: int) -> None:
    if limit and (wait := count(key, limit, WINDOW_SECONDS)):
        raise Throttled(math.ceil(wait))
