"""``manage.py mcp_stdio`` for tests: the same command, recorded if the environment requests it."""

from __future__ import annotations

import sys

from django.core.management import execute_from_command_line

from tests import wire


def main(arguments: list[str]) -> None:
    """Serve one client until it closes its input."""
    wire.record_if_asked()
    execute_from_command_line(["manage.py", "mcp_stdio", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
