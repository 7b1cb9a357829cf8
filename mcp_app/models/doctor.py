"""A proxy that lists the doctor's page among the model pages of every admin skin."""

from __future__ import annotations

from mcp_app.models.session import LogCursor


class Doctor(LogCursor):
    """A proxy without rows; its page needs ``mcp_app.run_doctor``."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = verbose_name_plural = "doctor"
