"""Every message that the server sends while the tests run: recorded, and judged by the published schemas.

A process records when the environment names a folder. See ``recorder`` and ``verdict``.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "MCP_WIRE_RECORD"


def environment() -> dict[str, str]:
    """Return the environment that makes a server started by a test record with this process."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def record_if_asked() -> None:
    """Start recording this server process, before it loads Django, if requested."""
    if not os.environ.get(VARIABLE):
        return
    import django

    django.setup()
    from tests.wire import recorder

    recorder.install(Path(os.environ[VARIABLE]))
