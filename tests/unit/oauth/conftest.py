"""An installation that issues tokens, and a user who connects clients."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client as Browser

from mcp_app.oauth import announced
from tests.unit.oauth.flow import BASE, HOST, Program


@pytest.fixture(autouse=True)
def _offers_oauth(settings: Any) -> None:
    """Require credentials on a loopback address and forget state of earlier tests."""
    announced.signing_machines.forget()
    settings.MCP = {
        **settings.MCP,
        "AUTH": "required",
        "OAUTH": True,
        # Announced without checking internet access, which no test has.
        "OAUTH_DOCUMENTS": "on",
        "PUBLIC_URL": BASE,
        "ALLOWED_HOSTS": [HOST],
    }


@pytest.fixture
def person(transactional_db: None) -> Any:
    """Return a user who is not staff."""
    return get_user_model().objects.create_user("ada", password="a long enough password")


@pytest.fixture
def browser(person: Any) -> Browser:
    """Return a browser logged in as the user."""
    opened = Browser(HTTP_HOST=HOST)
    opened.force_login(person, settings.AUTHENTICATION_BACKENDS[-1])
    return opened


@pytest.fixture
def program(browser: Browser) -> Program:
    """Return a self-registered client with that browser."""
    return Program(browser)
