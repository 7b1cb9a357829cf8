"""The project with the ledger's tools, which last, and those that raise anything."""

from tests.ledger_app.settings import *  # noqa: F403
from tests.ledger_app.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.process.raising_app.apps.RaisingConfig"]
