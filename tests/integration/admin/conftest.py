"""The seeded rows, and a browserless client for each kind of user."""

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
    """A logged-in client: ``root``, ``viewer`` (may look) or ``outsider`` (staff without permissions)."""

    def log_in(role: str) -> Client:
        client = Client()
        client.force_login(getattr(seeded, role))
        return client

    return log_in


@pytest.fixture
def root(client_of: ClientOf) -> Client:
    """A superuser's client."""
    return client_of("root")


@pytest.fixture
def viewer(client_of: ClientOf) -> Client:
    """The client of staff who may look at everything and act on nothing."""
    return client_of("viewer")
