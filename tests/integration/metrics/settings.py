"""Settings with quick tools, streaming tools and background tools; loopback needs no authentication."""

from __future__ import annotations

from tests.integration.http.settings import *  # noqa: F403
from tests.integration.http.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.ledger_app"]
