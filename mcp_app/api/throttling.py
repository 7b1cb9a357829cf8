"""How often one may ask: each principal, and each address while nobody is known; counted by all processes."""

from __future__ import annotations

import math
from ipaddress import ip_address, ip_network
from typing import Any

from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from mcp_app import conf
from mcp_app.streams.blocking.counting import count

WINDOW_SECONDS = 60.0


class Throttle(BaseThrottle):
    """Counts every request before its permissions are looked at."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """True; raises Throttled with the seconds to wait."""
        if request.auth is None:
            count_address(request)
        else:
            _count(f"api/{request.auth.key}", conf.get().api_requests_per_minute)
        return True


def count_address(request: Request) -> None:
    """Count a request of somebody unknown; raises Throttled."""
    _count(f"api/from/{_origin(request.META.get('REMOTE_ADDR') or '')}", conf.get().api_refusals_per_minute)


def _count(key: str, limit: int) -> None:
    if limit and (wait := count(key, limit, WINDOW_SECONDS)):
        raise Throttled(math.ceil(wait))


def _origin(address: str) -> str:
    """Whom an address stands for: with IPv6 a whole network belongs to one line."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "unknown"
    return str(parsed) if parsed.version == 4 else str(ip_network(f"{parsed}/64", strict=False))
