"""Queries for which a toolset had no fitting tool."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class SearchMiss(models.Model):
    """A query of ``find_tools`` for which the toolset ``slug`` had no fitting tool."""

    slug = models.CharField(max_length=50)
    query = models.CharField(max_length=200)
    count = models.PositiveIntegerField(default=1)
    last_at = AwareDateTimeField()

    class Meta:
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["slug", "query"], name="one_row_per_missed_query")
        ]

    def __str__(self) -> str:
        return f"{self.slug}: {self.query}"
