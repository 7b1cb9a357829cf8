"""Carries the context of a caller into a thread, with what asgiref keeps in it for one thread only.

Django's language and time zone are such; asgiref's own way into threads does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

from asgiref import local

P = ParamSpec("P")
T = TypeVar("T")

# Older versions of asgiref do not bind them to a thread.
_Storage: Any = getattr(local, "_Storage", ())
_rehome: Any = getattr(local, "_rehome", None)


def run_in(context: Context, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``function`` returns or raises in ``context``, a copy that is this thread's alone."""
    for variable, value in context.items():
        if isinstance(value, _Storage):
            context.run(variable.set, _rehome(value))
    return context.run(function, *args, **kwargs)
