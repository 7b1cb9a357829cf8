"""A user with a password, a browser, and an independent authenticator app."""

from __future__ import annotations

import html
import re
import time
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client as Browser

from mcp_app.oauth.second_factor import factors
from tests.unit.oauth.flow import HOST
from tests.unit.oauth.second_factor import app as authenticator
from tests.unit.oauth.second_factor.app import App

pytest.importorskip("qrcode", reason="requirements-sso.txt is not installed")

PASSWORD = "a long enough password"
CODE, SET_UP, OWN = (f"/accounts/second-factor/{page}" for page in ("code/", "set-up/", ""))


class Visitor:
    """A browser of one user at the server's pages."""

    def __init__(self, name: str, address: str = "192.0.2.1") -> None:
        self.name, self.browser = name, Browser(HTTP_HOST=HOST, REMOTE_ADDR=address)

    def log_in(self, door: str = "/accounts/login/", password: str = PASSWORD, following: str = "") -> Any:
        """Return the answer to the password."""
        return self.browser.post(
            door, {"username": self.name, "password": password, "next": following or "/oauth/apps"}
        )

    def give(self, code: str, page: str = CODE, **more: str) -> Any:
        """Return the answer to a code."""
        return self.browser.post(page, {"code": code, **more})

    def set_up(self) -> tuple[App, list[str]]:
        """Set up an app from the page; return it and the recovery codes."""
        app = App(self.secret())
        return app, self.codes_of(self.give(app.code(-1), SET_UP))

    def secret(self) -> str:
        """Return the secret that the page shows as text."""
        found = re.search(r"<code>([A-Z2-7 ]{32,})</code>", self.browser.get(SET_UP).content.decode())
        assert found
        return found[1].replace(" ", "")

    @staticmethod
    def codes_of(answer: Any) -> list[str]:
        """Return the recovery codes on a page."""
        text = html.unescape(answer.content.decode())
        found = re.findall(r"<li><code>(\d+)</code></li>", text)
        assert len(found) == 10, text
        return found

    @property
    def user(self) -> str:
        """The id of the logged-in user, "" if there is none."""
        return str(self.browser.session.get("_auth_user_id", ""))


@dataclass(frozen=True, slots=True)
class Stopped:
    """A stopped clock, in place of the module ``time``."""

    now: float

    def time(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Stopped:
    """Stop the clock of the server and of the app: no time step begins between a code and its check."""
    stopped = Stopped(time.time())
    monkeypatch.setattr(factors, "time", stopped)
    monkeypatch.setattr(authenticator, "time", stopped)
    return stopped


@pytest.fixture(autouse=True)
def person(transactional_db: None) -> Any:
    """Return a user who may also enter the admin."""
    return get_user_model().objects.create_superuser("ada", password=PASSWORD)


@pytest.fixture
def app(person: Any) -> tuple[App, list[str]]:
    """Return the app that this user set up."""
    visitor = Visitor("ada")
    visitor.log_in()
    assert visitor.user == str(person.pk)
    return visitor.set_up()
