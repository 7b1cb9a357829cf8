"""Seeded rows, and a test client for each kind of user."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.samples.admin_seed import Seed
from tests.samples.seeded import seeded, seeded_anew, seeded_once

__all__ = ["ClientOf", "client_of", "root", "seeded", "seeded_anew", "seeded_once", "viewer"]

ClientOf = Callable[[str], Client]


@pytest.fixture
def client_of(seeded: Seed) -> ClientOf:
    """Return a factory of logged-in clients:

    ``root``, ``viewer`` (view permissions), ``outsider`` (no permissions).
    """

    def log_in(role: str) -> Client:
        client = Client()
        client.force_login(getattr(seeded, role))
        return client

    return log_in


@pytest.fixture
def root(client_of: ClientOf) -> Client:
    """Return a client of a superuser."""
    return client_of("root")


@pytest.fixture
def viewer(client_of: ClientOf) -> Client:
    """Return a client of a staff user with every view permission and no other."""
    return client_of("viewer")
