"""The proxy model through which every admin skin lists the doctor's page among the model pages."""

from __future__ import annotations

from mcp_app.models.session import LogCursor


class Doctor(LogCursor):
    """A proxy without rows of its own. Its page needs the permission ``mcp_app.run_doctor``."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = verbose_name_plural = "doctor"
