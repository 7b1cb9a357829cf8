"""The measured installation without a message log, for comparison."""

from __future__ import annotations

from benchmarks.settings import *  # noqa: F403
from benchmarks.settings import MCP as _MCP

MCP = {**_MCP, "MESSAGE_LOG": False}
