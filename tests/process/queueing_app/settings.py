"""The project with the queueing app and without the demo."""

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.process.queueing_app.apps.QueueingConfig"]
