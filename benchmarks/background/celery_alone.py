"""The peer: Celery as its manual shows it, on the same Redis server, with its own result backend."""

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
)


@app.task
def start() -> str:
    """Answer when the first line ran."""
    return repr(time.monotonic())
