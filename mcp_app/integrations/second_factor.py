"""The second factor's class for ``AUTHENTICATION_BACKENDS`` and its class for ``MIDDLEWARE``."""

from __future__ import annotations

from mcp_app.oauth.second_factor.gate import FactorGate as Gate
from mcp_app.oauth.second_factor.pending import PendingMiddleware as SecondFactorMiddleware

__all__ = ["Gate", "SecondFactorMiddleware"]
