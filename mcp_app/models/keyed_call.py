"""Calls with an idempotency key, and their kept results."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class KeyedCall(models.Model):
    """A call with an idempotency key. ``principal`` is the caller's whole key, ``key`` a digest.

    ``digest`` is of the server, the tool and the given arguments. A background call is named by ``call_id``
    and keeps its own answer. A call that runs in a web process has a ``result`` when it has finished. After
    ``runs_until`` a call with neither counts as lost.
    """

    principal = models.CharField(max_length=120)
    key = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    # Without a foreign key, because the row is written before the call.
    call_id = models.UUIDField(null=True)
    # Binary, because PostgreSQL's text type rejects the NUL character.
    result = models.BinaryField(null=True)
    runs_until = AwareDateTimeField()
    created_at = AwareDateTimeField()
    expires_at = AwareDateTimeField(db_index=True)

    class Meta:
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["principal", "key"], name="one_call_per_idempotency_key")
        ]

    def __str__(self) -> str:
        return f"{self.principal} {self.key[:8]}"
