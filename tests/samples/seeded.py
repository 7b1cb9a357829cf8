"""Fixtures with the seeded rows, stored once per test file. Each test has its own copy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from django.db import transaction

from tests.samples.admin_seed import Seed, seed


@pytest.fixture(scope="module")
def seeded_once(django_db_setup: None, django_db_blocker: Any) -> Iterator[Seed]:
    """Store rows in a transaction that is rolled back after the last test of the file."""
    stored = transaction.atomic()
    with django_db_blocker.unblock():
        stored.__enter__()
        try:
            made = seed()
        except BaseException:
            # Otherwise later tests of this process would run inside this transaction.
            stored.__exit__(*sys.exc_info())
            raise
    yield made
    with django_db_blocker.unblock():
        transaction.set_rollback(True)
        stored.__exit__(None, None, None)


@pytest.fixture
def seeded(seeded_once: Seed, db: None) -> Seed:
    """Return realistic and hostile rows. Tests that commit are in other files and use ``seeded_anew``."""
    return deepcopy(seeded_once)


@pytest.fixture
def seeded_anew(transactional_db: None) -> Seed:
    """Store the same rows for a test that commits and thus cannot run in a transaction."""
    return seed()
