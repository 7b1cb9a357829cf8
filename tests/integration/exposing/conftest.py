"""The shop's tables, users and orders."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.utils import timezone

from mcp_app.catalogue.definitions.registry import registry
from tests.integration.exposing.shop import LABEL, Customer, Order

TABLES = (Customer, Order)


@pytest.fixture
def shop(transactional_db: None, settings: Any) -> Iterator[dict[str, Any]]:
    """Return users by kind: anonymous, a reader, a writer and a superuser; create 12 orders."""
    settings.ROOT_URLCONF = "tests.integration.exposing.urls"
    settings.ALLOWED_HOSTS = ["testserver"]
    with connection.schema_editor() as editor:
        for table in TABLES:
            editor.create_model(table)
    try:
        with registry.isolated():
            yield _people()
    finally:
        with connection.schema_editor() as editor:
            for table in reversed(TABLES):
                editor.delete_model(table)


def _people() -> dict[str, Any]:
    people = {
        "nobody": AnonymousUser(),
        "reader": User.objects.create_user("reader"),
        "writer": User.objects.create_user("writer"),
        "root": User.objects.create_superuser("root"),
    }
    kind = ContentType.objects.get_for_model(Order)
    for codename in ("view_order", "add_order", "change_order", "delete_order"):
        held = Permission.objects.create(codename=codename, name=codename, content_type=kind)
        people["writer"].user_permissions.add(held)
        if codename == "view_order":
            people["reader"].user_permissions.add(held)
    assert kind.app_label == LABEL
    add_orders(12, people)
    return people


def add_orders(count: int, people: dict[str, Any], start: int = 0) -> None:
    """Create orders of two customers whose columns differ, repeat and are missing."""
    customers = [
        Customer.objects.create(name=f"Customer of {name}", owner=people[name])
        for name in ("reader", "writer")
    ]
    Order.objects.bulk_create(
        Order(
            customer=customers[number % 2],
            number=f"A{number:04}",
            total=Decimal(number * 7 % 40) / 4,
            status=("open", "paid", "lost")[number % 3],
            due=None if number % 4 == 0 else date(2026, 1, 1) + timedelta(days=number % 5),
            placed=None if number % 5 == 0 else _placed(number),
            weight=None if number % 6 == 0 else (number % 4) / 3,
            rank=number % 3,
            extra={"words": [number]} if number % 2 else None,
        )
        for number in range(start, start + count)
    )


def _placed(number: int) -> datetime:
    """Return the time as rows of a project store it: aware or naive."""
    at = datetime(2026, 1, 1, 12, 0, 0, number % 3, tzinfo=UTC)
    return at if settings.USE_TZ else timezone.make_naive(at, timezone.get_default_timezone())
