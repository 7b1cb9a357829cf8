"""Runs functions in a caller's context in another thread, including asgiref's thread-bound values.

Django's language and time zone are such values. asgiref's own thread functions do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

from asgiref import local

P = ParamSpec("P")
T = TypeVar("T")

# Older versions of asgiref do not bind values to a thread.
_Storage: Any = getattr(local, "_Storage", ())
_rehome: Any = getattr(local, "_rehome", None)


def run_in(context: Context, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``function`` in ``context``, a copy that only this thread uses; return its result."""
    for variable, value in context.items():
        if isinstance(value, _Storage):
            context.run(variable.set, _rehome(value))
    return context.run(function, *args, **kwargs)
