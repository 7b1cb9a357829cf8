"""Beat when the clock of its machine is set back."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.schedules import schedule

from mcpsite.processes import beat
from mcpsite.processes.beat import Scheduler

PERIODS = {"often": 10.0, "seldom": 60.0}
HOUR = 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock of beat that many seconds ahead."""
    ahead = [0.0]

    class Time:
        @staticmethod
        def time() -> float:
            return time.time() + ahead[0]

    monkeypatch.setattr(beat, "time", Time)
    now = Celery.now
    monkeypatch.setattr(Celery, "now", lambda app: now(app) + timedelta(seconds=ahead[0]))
    return lambda seconds: ahead.__setitem__(0, seconds)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(
        Scheduler, "apply_entry", lambda _, entry, producer=None: names.append(str(entry.name))
    )
    return names


def test_clock_set_back_delays_no_task_beyond_its_period(
    tmp_path: Path, clock: Callable[[float], None], sent: list[str]
) -> None:
    app = Celery("beat", broker="memory://", set_as_current=False)
    entries: dict[str, Any] = {
        name: {"task": name, "schedule": schedule(seconds, app=app)} for name, seconds in PERIODS.items()
    }
    app.conf.update(beat_schedule=entries, timezone="UTC")
    clock(HOUR)
    scheduler = Scheduler(app, schedule_filename=str(tmp_path / "schedule"))
    assert scheduler.tick() <= PERIODS["often"]
    clock(0)
    assert scheduler.tick() <= PERIODS["often"]
    clock(PERIODS["often"] + 1)
    assert scheduler.tick() == 0
    assert sent == ["often"]
    clock(PERIODS["seldom"] + 1)
    while scheduler.tick() == 0:
        pass
    assert set(sent) == set(PERIODS)
    scheduler.close()
