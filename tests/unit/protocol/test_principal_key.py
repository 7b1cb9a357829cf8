"""Whose share what is kept counts on."""

from __future__ import annotations

import pytest

from mcp_app.auth.bench import bench_key
from mcp_app.auth.principal import LOOPBACK
from mcp_app.protocol.principal_key import actor_of, person_of


@pytest.mark.parametrize(
    ("key", "person"),
    [
        (LOOPBACK.key, "loopback"),
        ("", ""),
        ("user:2", "user:2"),
        ("user:2/key:7", "user:2"),
        ("user:2/stdio", "user:2"),
        ("user:22/key:2", "user:22"),
        (bench_key(2, 2), "user:2"),
        (bench_key(8, 2), "user:8"),
        ("user:6f1c-4a/key:7", "user:6f1c-4a"),
    ],
)
def test_all_ways_of_a_person_lead_to_that_person(key: str, person: str) -> None:
    assert person_of(key) == person
    assert person_of(person) == person


def test_who_acts_as_somebody_else_is_told_apart_from_them() -> None:
    assert actor_of(bench_key(8, 2)) == "8"
    assert actor_of(bench_key(2, 2)) == ""
