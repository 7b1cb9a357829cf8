"""Functions that race each other, each with a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections


def at_once(functions: list[Callable[[], object]]) -> list[Any]:
    """Run functions in threads at the same moment; what each returned, or the exception that it raised."""
    together = threading.Barrier(len(functions))

    def one(function: Callable[[], object]) -> object:
        together.wait(10)
        try:
            return function()
        finally:
            # One that is left would keep the test's database from being dropped.
            connections.close_all()

    with ThreadPoolExecutor(len(functions)) as threads:
        running = [threads.submit(one, function) for function in functions]
        return [each.exception() or each.result() for each in running]
