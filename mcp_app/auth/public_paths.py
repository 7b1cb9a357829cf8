"""Import paths of classes that projects refer to in their settings, and the former paths of these classes.

A former path works for one release. Its use warns once per process, and ``manage.py check`` reports it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from django.utils.module_loading import import_string

BROKER_TRANSPORT: Final = "mcp_app.integrations.broker:Transport"
TIME_ZONE_MIDDLEWARE: Final = "mcp_app.integrations.time_zone.TimeZoneMiddleware"
COMPANY_ADAPTER: Final = "mcp_app.integrations.socialaccount.Adapter"
FACTOR_ADAPTER: Final = "mcp_app.integrations.mfa.Adapter"
FACTOR_GATE: Final = "mcp_app.integrations.second_factor.Gate"
FACTOR_MIDDLEWARE: Final = "mcp_app.integrations.second_factor.SecondFactorMiddleware"

FORMER: Final = {
    "mcp_app.execution.background.broker:Transport": BROKER_TRANSPORT,
    "mcp_app.auth.time_zone.TimeZoneMiddleware": TIME_ZONE_MIDDLEWARE,
    "mcp_app.oauth.company.views.Adapter": COMPANY_ADAPTER,
    "mcp_app.oauth.second_factor.library.Adapter": FACTOR_ADAPTER,
    "mcp_app.oauth.second_factor.gate.Gate": FACTOR_GATE,
    "mcp_app.oauth.second_factor.pending.SecondFactorMiddleware": FACTOR_MIDDLEWARE,
}
SETTINGS: Final = (
    "CELERY_BROKER_TRANSPORT",
    "MIDDLEWARE",
    "AUTHENTICATION_BACKENDS",
    "SOCIALACCOUNT_ADAPTER",
    "MFA_ADAPTER",
)


def names(values: Any, path: str) -> bool:
    """Return True if ``path`` or its former path is the value of a setting.

    ``values`` may also be a list, which must contain the path.
    """
    return any(FORMER.get(value, value) == path for value in _each(values))


def former_in(settings: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the setting, the former path and the current path for each former path in the settings."""
    for setting in SETTINGS:
        for value in _each(getattr(settings, setting, None)):
            if value in FORMER:
                yield setting, value, FORMER[value]


def former_names(module: str) -> Callable[[str], Any]:
    """Return a module-level ``__getattr__`` that resolves former class names with a warning."""

    def get(name: str) -> Any:
        former = next((path for path in (f"{module}.{name}", f"{module}:{name}") if path in FORMER), None)
        if former is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(former)
        return import_string(FORMER[former].replace(":", "."))

    return get


@cache
def _warn(former: str) -> None:
    text = f"{former} is {FORMER[former]} now. The old path will stop working in the next release."
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def _each(values: Any) -> Iterable[str]:
    return (values,) if isinstance(values, str) else values or ()
