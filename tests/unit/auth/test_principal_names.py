"""Names of principals, read as a key range for many principals and one by one for few."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_app.auth.principal_names import MANY, principal_names

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def people() -> list[Any]:
    model = get_user_model()
    model.objects.bulk_create(model(username=f"person-{number}") for number in range(MANY + 10))
    return list(model.objects.filter(username__startswith="person-").order_by("pk"))


def test_range_query_returns_same_names_as_single_queries(people: list[Any]) -> None:
    gone = people.pop(7)
    gone.delete()
    asked = {f"user:{person.pk}" for person in people} | {f"user:{gone.pk}", "anonymous", "user:x"}
    alone: dict[str, str] = {}
    for principal in asked:
        alone |= principal_names([principal])
    with CaptureQueriesContext(connection) as captured:
        assert principal_names(asked) == alone
    assert any(" BETWEEN " in each["sql"] for each in captured)
    assert alone[f"user:{people[0].pk}"] == "person-0"


def test_sparse_keys_are_queried_without_range(people: list[Any]) -> None:
    last = get_user_model().objects.create(pk=people[-1].pk + 10 * MANY, username="far away")
    asked = {f"user:{person.pk}" for person in (*people, last)}
    with CaptureQueriesContext(connection) as captured:
        assert principal_names(asked)[f"user:{last.pk}"] == "far away"
    assert not any(" BETWEEN " in each["sql"] for each in captured)


@pytest.mark.parametrize(
    "principal", ["user:x", f"user:{10**30}", f"user:1/bench/by:{10**30}", f"user:{'9' * 5_000}", "user:-1"]
)
def test_impossible_key_has_no_name_and_leaves_other_names(principal: str, people: list[Any]) -> None:
    found = principal_names([principal, f"user:{people[0].pk}"])
    assert found[f"user:{people[0].pk}"] == "person-0"
    assert principal in found
