"""The seeded rows, stored once for all tests of a file: fixtures to import. Each test has its own copy."""

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
    """Rows in a transaction that all tests of the file are a part of, rolled back after the last one."""
    stored = transaction.atomic()
    with django_db_blocker.unblock():
        stored.__enter__()
        try:
            made = seed()
        except BaseException:
            # Else the other tests of this process would run in what is left of it.
            stored.__exit__(*sys.exc_info())
            raise
    yield made
    with django_db_blocker.unblock():
        transaction.set_rollback(True)
        stored.__exit__(None, None, None)


@pytest.fixture
def seeded(seeded_once: Seed, db: None) -> Seed:
    """Realistic and hostile rows. Tests that commit have files of their own, and ``seeded_anew``."""
    return deepcopy(seeded_once)


@pytest.fixture
def seeded_anew(transactional_db: None) -> Seed:
    """The same for a test that commits, and so can be in no transaction."""
    return seed()
