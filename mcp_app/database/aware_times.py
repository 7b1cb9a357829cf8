"""Datetime fields that are aware in Python and UTC in the database, even if a project sets USE_TZ to False.

Without USE_TZ, Django uses naive times in the project's zone. Twice a year such times are ambiguous or off
by an hour, but leases and expiry times must be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import models
from django.utils import timezone


class _AwareDateTimeField(models.DateTimeField):  # type: ignore[type-arg]
    """Django's DateTimeField, but aware even without USE_TZ. In migrations it is Django's own field."""

    def deconstruct(self) -> Any:
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.DateTimeField", arguments, options

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        if self.auto_now or (self.auto_now_add and add):
            setattr(model_instance, self.attname, datetime.now(UTC))
        return getattr(model_instance, self.attname)

    def to_python(self, value: Any) -> Any:
        """Interpret a time without a zone in the project's time zone."""
        return aware(super().to_python(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        return parameter(value, connection)

    def get_db_converters(self, connection: Any) -> list[Callable[..., Any]]:
        return [] if settings.USE_TZ else [_as_read]


if TYPE_CHECKING:
    # Type checkers know the value types of Django's own field, with and without null.
    AwareDateTimeField = models.DateTimeField
else:
    AwareDateTimeField = _AwareDateTimeField


def aware(at: datetime | None) -> datetime | None:
    """Return a time as an aware time. A naive time comes from a project without USE_TZ and is in its zone."""
    if at is None or settings.USE_TZ or timezone.is_aware(at):
        return at
    return timezone.make_aware(at, timezone.get_default_timezone())


def parameter(at: datetime | None, connection: Any) -> Any:
    """Convert a time to an SQL parameter."""
    if at is not None and not settings.USE_TZ and not connection.features.supports_timezones:
        # Django rejects aware times for a database without time zone support.
        at = at.astimezone(UTC).replace(tzinfo=None)
    return connection.ops.adapt_datetimefield_value(at)


def _as_read(value: Any, _expression: Any, connection: Any) -> Any:
    """Convert a naive time from the database to an aware one. Without time zone support it is in UTC."""
    if not isinstance(value, datetime) or timezone.is_aware(value):
        return value
    if not connection.features.supports_timezones:
        return value.replace(tzinfo=UTC)
    # `replace` preserves `fold`, which distinguishes the two occurrences of the hour that is repeated.
    return value.replace(tzinfo=ZoneInfo(connection.timezone_name)).astimezone(UTC)
