"""Settings of a project that has switched USE_TZ off, in a zone whose clocks are changed twice a year."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

USE_TZ = False
TIME_ZONE = "Europe/Berlin"
