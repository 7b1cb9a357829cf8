"""The project's settings with a page that fails."""

from __future__ import annotations

from mcpsite.settings import *  # noqa: F403

ROOT_URLCONF = "tests.browser.error_urls"
