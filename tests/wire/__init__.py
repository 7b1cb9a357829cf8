"""Every message that the server sends while the tests run: recorded, and judged by the published schemas.

A process records when the environment names a folder: ``recorder`` says how, ``verdict`` what becomes of it.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "MCP_WIRE_RECORD"


def environment() -> dict[str, str]:
    """What a server that a test starts has to be given, to be recorded with this process."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def record_if_asked() -> None:
    """Begin to record this server process, before it loads anything of Django, if it was asked for."""
    if not os.environ.get(VARIABLE):
        return
    import django

    django.setup()
    from tests.wire import recorder

    recorder.install(Path(os.environ[VARIABLE]))
