"""The middleware of people's time zones, for ``MIDDLEWARE``."""

from __future__ import annotations

from mcp_app.auth.time_zone import ChosenZoneMiddleware as TimeZoneMiddleware

__all__ = ["TimeZoneMiddleware"]
