"""The typed form of ``settings.MCP_WEB_TOOLS``: limits for fetches and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from mcp_app.egress import Policy
from mcp_app.egress.policy import networks


@dataclass(frozen=True, slots=True)
class WebToolsSettings:
    """The limits: the ``policy`` of fetches, ``max_characters`` per result, ``convert_seconds`` per page."""

    policy: Policy = field(default_factory=Policy)
    max_characters: int = 100_000
    convert_seconds: float = 5.0


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ValueError("a positive number is needed")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("a positive whole number is needed")
    return int(_number(value))


def _texts(value: Any) -> list[str]:
    if not isinstance(value, (list, tuple, set, frozenset)) or not all(
        isinstance(item, str) for item in value
    ):
        raise ValueError("a list of strings is needed")
    return list(value)


def _ports(value: Any) -> frozenset[int]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError("a list of port numbers is needed")  # noqa: TRY004 - one exception type for all faults
    return frozenset(_whole(item) for item in value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        raise ValueError("plain ASCII text is needed")
    return value


_POLICY_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "ALLOW": ("allow", lambda value: networks(_texts(value))),
    "PORTS": ("ports", _ports),
    "SECONDS": ("seconds", _number),
    "CONNECT_SECONDS": ("connect_seconds", _number),
    "MAX_BYTES": ("max_bytes", _whole),
    "MAX_RAW_BYTES": ("max_raw_bytes", _whole),
    "MAX_REDIRECTS": ("max_redirects", _whole),
    "USER_AGENT": ("user_agent", _text),
}
_OWN_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "MAX_CHARACTERS": ("max_characters", _whole),
    "CONVERT_SECONDS": ("convert_seconds", _number),
}
KEYS = {**_POLICY_KEYS, **_OWN_KEYS}


def load(values: dict[str, Any]) -> WebToolsSettings:
    """Build the typed settings. Raises ImproperlyConfigured naming the key and the requirement."""
    policy: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in values.items():
        if key not in KEYS:
            raise ImproperlyConfigured(
                f"settings.MCP_WEB_TOOLS has no key {key!r}. Known keys: {', '.join(sorted(KEYS))}."
            )
        name, convert = KEYS[key]
        try:
            (policy if key in _POLICY_KEYS else own)[name] = convert(value)
        except ValueError as error:
            raise ImproperlyConfigured(f"settings.MCP_WEB_TOOLS[{key!r}] is wrong: {error}.") from None
    return WebToolsSettings(policy=Policy(**policy), **own)


@lru_cache(maxsize=1)
def get() -> WebToolsSettings:
    """Return the current settings. They are cached until a test overrides them."""
    return load(getattr(django_settings, "MCP_WEB_TOOLS", {}))


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "MCP_WEB_TOOLS":
        get.cache_clear()


setting_changed.connect(_forget)
