"""The same installation in a project without Unfold."""

from __future__ import annotations

from tests.browser.corpus.settings import *  # noqa: F403
from tests.browser.corpus.settings import INSTALLED_APPS

INSTALLED_APPS = [name for name in INSTALLED_APPS if name != "unfold"]
del UNFOLD  # noqa: F821
