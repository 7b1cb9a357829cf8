"""The demo with an app of every feature and the trip, with pages of two entries."""

from __future__ import annotations

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS
from mcpsite.settings import MCP as _MCP

INSTALLED_APPS = [*_APPS, "tests.interop.app", "tests.interop.trip"]
MCP = {**_MCP, "PAGE_SIZE": 2}
