"""A broker for tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery

from tests.integration.execution.broker import OURS, application_with


@pytest.fixture
def transport() -> str:
    """Return the Kombu transport for Redis; empty for Kombu's own."""
    return OURS


@pytest.fixture
def broker(clean_redis: str, transport: str) -> Iterator[Celery]:
    """Return the current application, with the Redis of the tests as its broker."""
    with application_with(clean_redis, transport=transport) as app:
        yield app
