"""The project's settings, with everything logged and each span written to the log."""

from __future__ import annotations

from typing import Any

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import LOGGING as _LOGGING

LOGGING: dict[str, Any] = {**_LOGGING, "root": {**_LOGGING["root"], "level": "DEBUG"}}
