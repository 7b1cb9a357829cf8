#!/usr/bin/env python
"""The command line: hands its arguments to Django once the Python and the settings are known to be good."""

import os
import sys


def main() -> None:
    """Run one management command; a wrong Python or a wrong setting ends in one line and exit code 2."""
    if sys.version_info < (3, 11):
        version = ".".join(str(part) for part in sys.version_info[:3])
        sys.exit("Python 3.11 or newer is needed, this is %s: install it and run `make run` again." % version)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")
    from mcpsite.environment import WrongSettings

    try:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except WrongSettings as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        from mcpsite.processes.own_code import explain_at_start

        explain_at_start(error)
        raise


if __name__ == "__main__":
    main()
