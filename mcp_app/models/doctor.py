"""Gives the doctor's page a place among the pages of models, in every admin skin; stores nothing."""

from __future__ import annotations

from mcp_app.models.session import LogCursor


class Doctor(LogCursor):
    """No rows are read or written through this proxy; its page needs ``mcp_app.run_doctor``."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = verbose_name_plural = "doctor"
