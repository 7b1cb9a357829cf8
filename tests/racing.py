"""Functions that run concurrently, each with its own database connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections


def at_once(functions: list[Callable[[], object]]) -> list[Any]:
    """Run functions in threads at the same moment and return their results or exceptions."""
    together = threading.Barrier(len(functions))

    def one(function: Callable[[], object]) -> object:
        together.wait(10)
        try:
            return function()
        finally:
            # An open connection would keep the test's database from being dropped.
            connections.close_all()

    with ThreadPoolExecutor(len(functions)) as threads:
        running = [threads.submit(one, function) for function in functions]
        return [each.exception() or each.result() for each in running]
