"""Settings of an installation without Unfold, with a page that fails."""

from __future__ import annotations

from tests.browser.plain_settings import *  # noqa: F403

ROOT_URLCONF = "tests.browser.error_urls"
