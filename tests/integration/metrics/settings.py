"""Quick tools, tools that talk, and background tools; credentials are asked of everybody but this machine."""

from __future__ import annotations

from tests.integration.http.settings import *  # noqa: F403
from tests.integration.http.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.ledger_app"]
