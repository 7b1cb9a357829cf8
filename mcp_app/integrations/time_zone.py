"""The middleware that activates each person's time zone, for ``MIDDLEWARE``."""

from __future__ import annotations

from mcp_app.auth.time_zone import ChosenZoneMiddleware as TimeZoneMiddleware

__all__ = ["TimeZoneMiddleware"]
