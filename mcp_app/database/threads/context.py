"""Execution of functions in another thread, in the context of their caller.

Values that asgiref binds to a thread, such as Django's language and time zone, are included. The thread
functions of asgiref do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

from asgiref import local

P = ParamSpec("P")
T = TypeVar("T")

# Older versions of asgiref do not bind values to threads.
_Storage: Any = getattr(local, "_Storage", ())
_rehome: Any = getattr(local, "_rehome", None)


def run_in(context: Context, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``function`` in ``context``, a copy that only this thread uses, and return its result."""
    for variable, value in context.items():
        if isinstance(value, _Storage):
            context.run(variable.set, _rehome(value))
    return context.run(function, *args, **kwargs)
