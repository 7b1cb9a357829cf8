"""Another process of the installation: edits one tool for each line it reads, and says when it committed."""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Retitle a tool through the same service that the admin uses."""
    import django

    django.setup()
    from django.db import transaction

    try:
        from mcp_app.catalogue.changes.services import update_entry
    except ModuleNotFoundError:  # A checkout from before there was this package, which is compared with.
        from mcp_app.catalogue.services import update_entry  # type: ignore[no-redef, import-not-found]
    from mcp_app.models import Tool

    committed = [time.monotonic()]
    print("ready", *committed, flush=True)
    for number, _ in enumerate(sys.stdin, start=1):
        with transaction.atomic():
            # The first to be called after the commit, before the other processes are told.
            transaction.on_commit(lambda: committed.append(time.monotonic()))
            update_entry(entry=Tool.objects.get(name="echo"), actor=None, title=f"Echo {number}")
        print("changed", committed[-1], flush=True)


if __name__ == "__main__":
    main()
