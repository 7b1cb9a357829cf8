"""The measured installation: the default project with timing tools in place of the demo."""

from __future__ import annotations

from benchmarks.settings import *  # noqa: F403
from benchmarks.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*(name for name in _APPS if name != "benchmarks.catalogue"), "benchmarks.background"]
