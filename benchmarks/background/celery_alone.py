"""The peer: Celery as in its manual, on the same Redis server, with its own result backend.

Like a background call, a job is redelivered when its process dies: it is acknowledged late, and no job
is prefetched.
"""

from __future__ import annotations

import os
import time

from celery import Celery

app = Celery("celery_alone", broker=os.environ.get("PEER_URL"), backend=os.environ.get("PEER_URL"))
app.conf.update(
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
)


@app.task
def start() -> str:
    """Return when the first line ran."""
    return repr(time.monotonic())
