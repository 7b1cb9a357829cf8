"""Test settings of a project without Unfold: the same pages in Django's own admin."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [name for name in INSTALLED_APPS if name != "unfold"]
del UNFOLD  # noqa: F821
