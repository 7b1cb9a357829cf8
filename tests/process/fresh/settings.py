"""Settings of a project that was never migrated; the environment names its database."""

from __future__ import annotations

import json
import os

SECRET_KEY = "not a secret, and long enough for every check of its length"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "rest_framework",
    "mcp_app",
    "tests.process.fresh",
]
DATABASES = {"default": json.loads(os.environ["FRESH_DATABASE"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.process.fresh.settings"
USE_TZ = True
MCP = {"LOOPBACK": True}
urlpatterns: list[object] = []
