"""The second factor's backend for ``AUTHENTICATION_BACKENDS`` and its ``MIDDLEWARE``."""

from __future__ import annotations

from mcp_app.oauth.second_factor.gate import FactorGate as Gate
from mcp_app.oauth.second_factor.pending import PendingMiddleware as SecondFactorMiddleware

__all__ = ["Gate", "SecondFactorMiddleware"]
