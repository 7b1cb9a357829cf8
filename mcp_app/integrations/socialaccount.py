"""The adapter of the company login, for ``SOCIALACCOUNT_ADAPTER``."""

from __future__ import annotations

from mcp_app.oauth.company.views import CompanyAdapter as Adapter

__all__ = ["Adapter"]
