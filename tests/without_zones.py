"""Settings of a project with USE_TZ off, in a time zone with daylight saving time."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

USE_TZ = False
TIME_ZONE = "Europe/Berlin"
