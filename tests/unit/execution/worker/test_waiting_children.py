"""Worker children waiting for clients: counted across processes, bounded, and replaced meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_app.execution.worker import pool_size
from mcp_app.execution.worker.pool_size import PoolSize
from mcp_app.execution.worker.waiting_children import WaitingChildren, WaitingSlot
from mcp_app.protocol.principal_key import Person
from mcp_app.sessions.client_requests import NoAnswer


def _wait_in(children: WaitingChildren, slot: int, ready: Any) -> None:
    with WaitingSlot(children, slot, 8):
        ready.set()
        signal.pause()


def test_waiting_child_is_counted_until_killed() -> None:
    fork = multiprocessing.get_context("fork")
    children, ready = WaitingChildren(), fork.Event()
    child = fork.Process(target=_wait_in, args=(children, 3, ready), daemon=True)
    child.start()
    assert child.pid is not None
    assert ready.wait(30)
    assert children.count({3: child.pid, 4: os.getpid()}) == 1
    child.kill()
    child.join(30)
    # Its slot belongs to a new child now, which does not wait.
    assert children.count({3: os.getpid(), 4: os.getpid()}) == 0
    place = WaitingSlot(children, 0, 1)
    with place:
        assert place.waits


def test_question_above_limit_is_refused_unless_its_call_already_waits() -> None:
    children = WaitingChildren()
    first, second = WaitingSlot(children, 0, 1), WaitingSlot(children, 1, 1)
    with first:
        with first, pytest.raises(NoAnswer, match="Try again"), second:
            pass
        assert (first.waits, second.waits) == (True, False)
        with pytest.raises(NoAnswer), second:
            pass
    with second:
        assert (first.waits, second.waits) == (False, True)


def held_by(children: WaitingChildren, *people: str) -> tuple[ExitStack, list[WaitingSlot]]:
    """Take a slot for each principal, in this order."""
    stack, places = ExitStack(), []
    for slot, person in enumerate(people):
        place = WaitingSlot(children, slot, len(people))
        if person:
            place.person = Person(person)
        stack.enter_context(place)
        places.append(place)
    return stack, places


@pytest.mark.parametrize(
    ("holders", "asker", "leaves"),
    [
        pytest.param("aaaa", "b", 0, id="one principal holds all slots"),
        pytest.param("baaa", "b", 1, id="oldest slot of the principal with most"),
        pytest.param("aabb", "c", 0, id="two principals hold all slots"),
        pytest.param("aabb", "a", None, id="asker ties for most"),
        pytest.param("aaab", "a", None, id="asker holds most"),
        pytest.param("aab", "b", None, id="slots do not alternate"),
        pytest.param("abcd", "e", None, id="each principal holds one"),
        pytest.param(["", "", "a"], "b", None, id="anonymous slots stay"),
    ],
)
def test_slot_is_taken_from_principal_with_most_slots(
    holders: Iterable[str], asker: str, leaves: int | None
) -> None:
    children = WaitingChildren()
    stack, places = held_by(children, *holders)
    another = WaitingSlot(children, len(places), len(places))
    another.person = Person(asker)
    with stack:
        if leaves is None:
            with pytest.raises(NoAnswer, match="Too many"), another:
                pass
        else:
            with another:
                assert another.waits
        assert [slot for slot, place in enumerate(places) if place.must_leave] == [
            slot for slot in range(len(places)) if slot == leaves
        ]


def test_withdrawn_slot_is_not_counted_twice() -> None:
    children = WaitingChildren()
    stack, places = held_by(children, *"aaaaa")
    with stack:
        for number, person in enumerate("bcd"):
            another = WaitingSlot(children, 10 + number, len(places))
            another.person = Person(person)
            stack.enter_context(another)
        assert [place.must_leave for place in places] == [True, True, True, False, False]
    again = WaitingSlot(children, 0, 1)
    with again:
        assert not again.must_leave


class Pool:
    """The used part of Celery's pool."""

    def __init__(self, size: int) -> None:
        self.num_processes, self.idle = size, size
        self._pool = SimpleNamespace(_pool=[])
        self.maintained = -1
        self.maintain_pool()

    def grow(self, number: int) -> None:
        self.num_processes += number

    def shrink(self, number: int) -> None:
        if not self.idle:
            raise ValueError("Can't shrink pool. All processes busy!")
        self.num_processes -= number

    def maintain_pool(self) -> None:
        """Reap children that were told to end, and start missing ones."""
        self.maintained += 1
        self._pool._pool = [
            SimpleNamespace(index=index, pid=os.getpid() if index == 0 else -1)
            for index in range(self.num_processes)
        ]


def test_pool_grows_while_child_waits_and_shrinks_only_if_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_size, "SPARE_SECONDS", 0.0)
    pool, children, taken = Pool(2), WaitingChildren(), [2]
    consumer = SimpleNamespace(
        pool=pool, _update_prefetch_count=lambda change: taken.append(taken[-1] + change)
    )
    size = PoolSize(consumer, children)
    with WaitingSlot(children, 0, 8):
        for _ in range(3):
            size.adjust(all_begun=True)
        assert (pool.num_processes, pool.maintained, taken) == (3, 1, [2, 3])
    for all_begun, idle in ((True, 0), (False, 1), (True, 0)):
        pool.idle = idle
        size.adjust(all_begun=all_begun)
        assert pool.num_processes == 3
    pool.idle = 1
    for _ in range(3):
        size.adjust(all_begun=True)
    assert (pool.num_processes, taken) == (2, [2, 3, 2])


def test_pool_shrinks_by_one_child_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool would tell the same child again, count both, and keep the other forever."""
    monkeypatch.setattr(pool_size, "SPARE_SECONDS", 0.0)
    pool, children = Pool(2), WaitingChildren()
    size = PoolSize(SimpleNamespace(pool=pool, _update_prefetch_count=lambda _: None), children)
    pool.grow(2)
    pool.maintain_pool()
    for _ in range(4):
        size.adjust(all_begun=True)
    assert (pool.num_processes, len(pool._pool._pool)) == (3, 4)
    pool.maintain_pool()
    for _ in range(4):
        size.adjust(all_begun=True)
    assert pool.num_processes == 2
