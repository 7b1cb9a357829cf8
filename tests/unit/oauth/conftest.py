"""An installation that gives out tokens, and a person who logs clients in."""

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
    """Credentials are required, the address is one of this machine, and nothing of a test before is known."""
    announced.signing_machines.forget()
    settings.MCP = {
        **settings.MCP,
        "AUTH": "required",
        "OAUTH": True,
        # Announced without a look at the internet, which no test reaches.
        "OAUTH_DOCUMENTS": "on",
        "PUBLIC_URL": BASE,
        "ALLOWED_HOSTS": [HOST],
    }


@pytest.fixture
def person(transactional_db: None) -> Any:
    """Somebody who is not staff."""
    return get_user_model().objects.create_user("ada", password="a long enough password")


@pytest.fixture
def browser(person: Any) -> Browser:
    """Their browser, logged in."""
    opened = Browser(HTTP_HOST=HOST)
    opened.force_login(person, settings.AUTHENTICATION_BACKENDS[-1])
    return opened


@pytest.fixture
def program(browser: Browser) -> Program:
    """A client that registered itself, with that browser."""
    return Program(browser)
