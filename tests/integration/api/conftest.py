"""Seeded rows, a user of each role, and clients for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.auth.roles import make_roles
from mcp_app.streams.blocking import counting
from tests.samples.admin_seed import PASSWORD, Seed
from tests.samples.seeded import seeded, seeded_anew, seeded_once

__all__ = ["ClientOf", "client_of", "root", "seeded", "seeded_anew", "seeded_once", "send", "user_of"]

ClientOf = Callable[..., Client]


@pytest.fixture(autouse=True)
def _fresh_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a new minute of rate limits for every test."""
    monkeypatch.setattr(counting, "_own", counting.OwnCounts())


@pytest.fixture
def user_of(db: None) -> Callable[[str], Any]:
    """Return a factory of users with one role and no other permission."""
    make_roles()

    def make(role: str) -> Any:
        users = get_user_model().objects
        found = users.filter(username=f"the-{role}").first()
        if found is None:
            found = users.create_user(f"the-{role}", password=PASSWORD, is_superuser=role == "superuser")
            if group := Group.objects.filter(name=f"MCP {role}").first():
                found.groups.add(group)
        return found

    return make


@pytest.fixture
def client_of(user_of: Callable[[str], Any]) -> ClientOf:
    """Return a factory of clients with an API key of a role's user, or without credentials for
    ``anonymous``.
    """

    def make(role: str, **more: Any) -> Client:
        if role == "anonymous":
            return Client(**more)
        _, secret = issue_api_key(user=user_of(role), name="tests")
        return Client(headers={"authorization": f"Bearer {secret}"}, **more)

    return make


@pytest.fixture
def root(client_of: ClientOf, seeded: Seed) -> Client:
    """Return a superuser's client, on the seeded rows."""
    return client_of("superuser")


def send(client: Client, method: str, path: str, body: Any = None, **more: Any) -> Any:
    """Send one request with a JSON body."""
    given = {} if body is None else {"data": body, "content_type": "application/json"}
    return getattr(client, method.lower())(path, **given, **more)
