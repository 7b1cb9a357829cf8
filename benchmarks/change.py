"""Another process of the installation: edits one tool for each line it reads, and says when it began."""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Retitle a tool through the same service that the admin uses."""
    import django

    django.setup()
    from mcp_app.catalogue.changing.services import update_entry
    from mcp_app.models import Tool

    print("ready", time.monotonic(), flush=True)
    for number, _ in enumerate(sys.stdin, start=1):
        entry = Tool.objects.get(name="echo")
        began = time.monotonic()
        update_entry(entry=entry, actor=None, title=f"Echo {number}")
        print("changed", began, flush=True)


if __name__ == "__main__":
    main()
