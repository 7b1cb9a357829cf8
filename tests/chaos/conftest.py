"""The clusters to break, and the seed of all randomness: CHAOS_SEED repeats a run."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.chaos.cluster import Cluster

FAILED = pytest.StashKey[bool]()
# In the environment, so that parallel test processes share it.
SEED = os.environ.setdefault("CHAOS_SEED", secrets.token_hex(4))


def pytest_report_header() -> str:
    return f"CHAOS_SEED={SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deselect all tests outside the short selection in an ordinary run."""
    for item in items:
        if "tests/chaos/" in item.nodeid and not any(item.iter_markers("quick")):
            item.add_marker(pytest.mark.chaos)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Return a generator seeded for each test."""
    print(f"CHAOS_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Record for fixtures whether their test failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def start_cluster(rng: random.Random, request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Start clusters; print faults and log ends if the test failed."""
    clusters: list[Cluster] = []
    with ExitStack() as stack:

        def start(**options: object) -> Cluster:
            cluster = stack.enter_context(Cluster(rng=rng, **options))  # type: ignore[arg-type]
            clusters.append(cluster)
            return cluster

        yield start
        if request.node.stash.get(FAILED, False):
            for cluster in clusters:
                print(*cluster.faults, cluster.logs()[-6000:], sep="\n")
