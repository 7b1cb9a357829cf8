"""The adapter of the second factor, for ``MFA_ADAPTER``."""

from __future__ import annotations

from mcp_app.oauth.second_factor.library import FactorAdapter as Adapter

__all__ = ["Adapter"]
