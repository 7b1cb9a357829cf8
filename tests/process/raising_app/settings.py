"""The project with the long-running tools of the ledger, and with the raising tools."""

from tests.ledger_app.settings import *  # noqa: F403
from tests.ledger_app.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.process.raising_app.apps.RaisingConfig"]
