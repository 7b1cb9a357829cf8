"""The measured installation: the default project with one tool per path in place of the demo."""

from __future__ import annotations

from benchmarks.settings import *  # noqa: F403
from benchmarks.settings import INSTALLED_APPS as _APPS
from benchmarks.settings import MCP as _MCP

INSTALLED_APPS = [*(name for name in _APPS if name != "benchmarks.catalogue"), "benchmarks.hops"]
# A call delayed by a busy machine must not take another path.
MCP = {**_MCP, "GRACE_SECONDS": 1.0}
