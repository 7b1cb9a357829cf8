"""``manage.py prepare``: update the database to this version once, before any process serves."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from mcp_app.streams.blocking.server_facts import cluster_fault
from mcpsite.first_start import prepare


class Command(BaseCommand):
    """A command that runs migrations and updates the catalogue from code. It can be repeated."""

    help = "Update the database and the catalogue to this version, as `up` does before it serves."

    def handle(self, *args: Any, **options: Any) -> None:
        """Update the database. Raise CommandError for a Redis Cluster, and Django's database errors."""
        if refused := cluster_fault(settings.REDIS_URL):
            raise CommandError(refused)
        prepare()
        self.stdout.write("The database and the catalogue are ready.")
