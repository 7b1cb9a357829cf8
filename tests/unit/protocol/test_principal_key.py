"""The user or client whose quota a principal key counts against."""

from __future__ import annotations

import pytest

from mcp_app.auth.bench import bench_key
from mcp_app.auth.principal import LOOPBACK
from mcp_app.protocol.principal_key import CallerIds, actor_of, caller_ids, person_of


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
def test_person_of_maps_all_keys_of_user_to_user(key: str, person: str) -> None:
    assert person_of(key) == person
    assert person_of(person) == person


def test_actor_of_is_set_only_for_impersonation() -> None:
    assert actor_of(bench_key(8, 2)) == "8"
    assert actor_of(bench_key(2, 2)) == ""


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (LOOPBACK.key, CallerIds()),
        ("", CallerIds()),
        ("user:2", CallerIds("2")),
        ("user:2/key:7", CallerIds("2", api_key="7")),
        ("user:6f1c-4a/key:7", CallerIds("6f1c-4a", api_key="7")),
        ("user:2/client:5", CallerIds("2", client="5")),
        ("user:2/client:external-5", CallerIds("2")),
        ("user:2/key:" + "9" * 19, CallerIds("2")),
        (bench_key(8, 2), CallerIds("2", actor="8")),
    ],
)
def test_caller_ids_are_read_from_every_kind_of_key(key: str, found: CallerIds) -> None:
    assert caller_ids(key) == found
