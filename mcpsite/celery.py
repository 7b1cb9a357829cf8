"""Owns the Celery application: settings from Django, tasks from ``mcp_app.tasks``."""

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
# Of every installed app: some are not ours (MCP_APPS).
app.autodiscover_tasks()
# In every thread; by itself it is only that of this one.
app.set_default()


# It warns of workers that run as root: a pickled message is code of whoever can write to the broker. None is
# read here (CELERY_ACCEPT_CONTENT), and the web processes beside the worker are root just as well.
warnings.filterwarnings("ignore", category=SecurityWarning)


@after_setup_logger.connect
@after_setup_task_logger.connect
def write_as_the_others(logger: logging.Logger, **_: Any) -> None:
    """Celery gives its loggers handlers of its own: their lines are worded like everybody's."""
    ours = next((handler.formatter for handler in logging.getLogger().handlers), None)
    for each in (logger, multiprocessing_logger()):
        for handler in each.handlers:
            handler.setFormatter(ours)


@celeryd_init.connect
def name_worker(sender: str = "worker", **_: Any) -> None:
    """A worker without a configured name is known by its node name."""
    os.environ.setdefault(PROCESS, sender)


@beat_init.connect
@beat_embedded_init.connect
def name_beat(**_: Any) -> None:
    """Also the beat of a worker with ``--beat``, which is a process of its own."""
    os.environ[PROCESS] = "beat"


@worker_init.connect
def show_life(**_: Any) -> None:
    """Tell the supervisor that the main process does not stand still.

    From a thread, and from the start: Celery waits for Redis while that is away, and is well all the same.
    """
    permits.to_serve()
    if signs_of_life.wanted and not permits.needed:
        _show_from_now_on()


@worker_ready.connect
def take_over(**_: Any) -> None:
    """In place of a worker with earlier code: that one may leave once this one consumes, and so may this one.

    A signal of our own, because those of Celery say that Ctrl-C was pressed.
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
