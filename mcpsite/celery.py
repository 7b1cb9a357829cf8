"""The Celery application, with settings from Django and tasks from all installed apps."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from typing import Any

from billiard.util import get_logger as multiprocessing_logger
from celery import Celery
from celery.platforms import EX_OK, SecurityWarning
from celery.signals import (
    after_setup_logger,
    after_setup_task_logger,
    beat_embedded_init,
    beat_init,
    celeryd_init,
    worker_init,
    worker_ready,
)
from celery.worker import state

from mcp_app.observability.logs import PROCESS
from mcpsite.supervised import SECONDS, permits, signs_of_life

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")

app = Celery("mcpsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
# All installed apps, including those in MCP_APPS.
app.autodiscover_tasks()
# The default for all threads. Otherwise it would be the current application of this thread only.
app.set_default()


# Celery warns about workers that run as root, because pickled messages can contain code. This worker
# accepts no pickled messages (CELERY_ACCEPT_CONTENT), and web processes have the same rights.
warnings.filterwarnings("ignore", category=SecurityWarning)


@after_setup_logger.connect
@after_setup_task_logger.connect
def write_as_the_others(logger: logging.Logger, **_: Any) -> None:
    """Give Celery's log handlers the formatter that other loggers use."""
    ours = next((handler.formatter for handler in logging.getLogger().handlers), None)
    for each in (logger, multiprocessing_logger()):
        for handler in each.handlers:
            handler.setFormatter(ours)


@celeryd_init.connect
def name_worker(sender: str = "worker", **_: Any) -> None:
    """Set the name of a worker to its node name, unless a name is configured."""
    os.environ.setdefault(PROCESS, sender)


@beat_init.connect
@beat_embedded_init.connect
def name_beat(**_: Any) -> None:
    """Set the name of beat, also for a worker process with ``--beat``."""
    os.environ[PROCESS] = "beat"


@worker_init.connect
def show_life(**_: Any) -> None:
    """Start sending heartbeats to the supervisor.

    A thread sends them from the start, because a worker that waits for Redis is still healthy.
    """
    permits.to_serve()
    if signs_of_life.wanted and not permits.needed:
        _show_from_now_on()


@worker_ready.connect
def take_over(**_: Any) -> None:
    """Replace a worker with earlier code. Handle SIGHUP and send heartbeats once this worker takes jobs.

    This project handles SIGHUP itself, because Celery would report a Ctrl-C for a signal that it handles.
    """
    if permits.needed:
        signal.signal(signal.SIGHUP, _finish)
        _show_from_now_on()


def _finish(*_: Any) -> None:
    state.should_stop = EX_OK


def _show_from_now_on() -> None:
    threading.Thread(target=_give_for_ever, name="signs-of-life", daemon=True).start()


def _give_for_ever() -> None:
    pause = threading.Event()
    while True:
        signs_of_life.give()
        pause.wait(SECONDS)
