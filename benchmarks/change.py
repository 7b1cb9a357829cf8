"""Another process of the installation that edits one tool per input line and prints the commit time."""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Retitle a tool through the service that the admin uses."""
    import django

    django.setup()
    from django.db import transaction

    try:
        from mcp_app.catalogue.changes.services import update_entry
    except ModuleNotFoundError:  # A compared checkout from before this package.
        from mcp_app.catalogue.services import update_entry  # type: ignore[no-redef, import-not-found]
    from mcp_app.models import Tool

    committed = [time.monotonic()]
    print("ready", *committed, flush=True)
    for number, _ in enumerate(sys.stdin, start=1):
        with transaction.atomic():
            # The first callback after the commit, before other processes are notified.
            transaction.on_commit(lambda: committed.append(time.monotonic()))
            update_entry(entry=Tool.objects.get(name="echo"), actor=None, title=f"Echo {number}")
        print("changed", committed[-1], flush=True)


if __name__ == "__main__":
    main()
