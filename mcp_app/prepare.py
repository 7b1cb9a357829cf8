"""The update of the database from code: the rows of the catalogue, and the roles. It can be repeated."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth.management import create_permissions
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.migrations.loader import MigrationLoader

from mcp_app.auth.roles import make_roles
from mcp_app.catalogue.changes.mirroring import Mirrored, mirror


def prepare() -> tuple[Mirrored, list[str]]:
    """Update both. Return the changes of the catalogue and the roles that changed. Raise django.db.Error."""
    return mirror(), make_roles()


def after_migrate(
    sender: AppConfig, using: str = DEFAULT_DB_ALIAS, plan: Any = None, verbosity: int = 1, **_: Any
) -> None:
    """Handle ``post_migrate``, so that a deployment can serve right after ``migrate``.

    Do nothing without a plan, because ``flush`` sends the signal at the end of transactional tests. Do
    nothing either if some tables of this app are missing.
    """
    if not _is_ready(sender, using, plan):
        return
    mirrored, made = prepare()
    if verbosity >= 1 and (mirrored.changed or made):
        brought = f"{mirrored.changed} entries updated, {len(made)} roles created or completed"
        print(f"  MCP catalogue: {brought}")  # noqa: T201 - as Django's own receivers do
    for problem in mirrored.unreadable:
        print(f"  MCP catalogue: not offered: {problem}", file=sys.stderr)  # noqa: T201 - nothing else would tell


def roles_after_migrate(sender: AppConfig, using: str = DEFAULT_DB_ALIAS, plan: Any = None, **_: Any) -> None:
    """Handle ``post_migrate`` of another app whose permissions belong to roles."""
    if _is_ready(sender, using, plan):
        make_roles()


def _is_ready(sender: AppConfig, using: str, plan: Any) -> bool:
    """Create the permissions of ``sender``. Return False if roles cannot be created."""
    if plan is None or using != DEFAULT_DB_ALIAS or not router.allow_migrate(using, "mcp_app"):
        return False
    if not is_migrated("mcp_app", using):
        return False
    # Roles contain permissions that another receiver of this signal creates, possibly after this one.
    create_permissions(apps.get_app_config(sender.label), verbosity=0, using=using)
    return True


def is_migrated(label: str = "mcp_app", using: str = DEFAULT_DB_ALIAS) -> bool:
    """Return True if every migration of ``label`` has been applied.

    System checks need this, because ``migrate`` runs them before it applies migrations.
    """
    loader = MigrationLoader(connections[using])
    return set(loader.graph.leaf_nodes(label)) <= set(loader.applied_migrations)
