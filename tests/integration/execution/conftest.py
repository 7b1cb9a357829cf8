"""A broker for tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery

from tests.integration.execution.broker import OURS, application_with


@pytest.fixture
def transport() -> str:
    """How Kombu reaches Redis; empty for its own way."""
    return OURS


@pytest.fixture
def broker(clean_redis: str, transport: str) -> Iterator[Celery]:
    """The Redis of the tests as the current application's broker."""
    with application_with(clean_redis, transport=transport) as app:
        yield app
