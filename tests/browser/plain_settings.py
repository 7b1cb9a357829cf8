"""Settings of an installation without Unfold: the same pages in Django's own admin."""

from __future__ import annotations

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS

INSTALLED_APPS = [name for name in INSTALLED_APPS if name != "unfold"]
del UNFOLD  # noqa: F821
