"""Datetime fields that are aware in Python and UTC in the database, even if a project disables USE_TZ.

Django would otherwise use naive times in the project's zone. Twice a year these are off by an hour or
ambiguous, but leases and expiries must be exact.
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
    """Django's DateTimeField, but aware without USE_TZ; identical in migrations."""

    def deconstruct(self) -> Any:
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.DateTimeField", arguments, options

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        if self.auto_now or (self.auto_now_add and add):
            setattr(model_instance, self.attname, datetime.now(UTC))
        return getattr(model_instance, self.attname)

    def to_python(self, value: Any) -> Any:
        """Interpret input without a zone in the project's time zone."""
        return aware(super().to_python(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        return parameter(value, connection)

    def get_db_converters(self, connection: Any) -> list[Callable[..., Any]]:
        return [] if settings.USE_TZ else [_as_read]


if TYPE_CHECKING:
    # Type checkers know the value types of Django's field, with and without null.
    AwareDateTimeField = models.DateTimeField
else:
    AwareDateTimeField = _AwareDateTimeField


def aware(at: datetime | None) -> datetime | None:
    """Make a time aware that comes from code or forms of a project without time zones."""
    if at is None or settings.USE_TZ or timezone.is_aware(at):
        return at
    return timezone.make_aware(at, timezone.get_default_timezone())


def parameter(at: datetime | None, connection: Any) -> Any:
    """Return a time as an SQL parameter."""
    if at is not None and not settings.USE_TZ and not connection.features.supports_timezones:
        # Django rejects aware times there.
        at = at.astimezone(UTC).replace(tzinfo=None)
    return connection.ops.adapt_datetimefield_value(at)


def _as_read(value: Any, _expression: Any, connection: Any) -> Any:
    """Make a value aware that Django read as naive; databases without time zones return UTC."""
    if not isinstance(value, datetime) or timezone.is_aware(value):
        return value
    if not connection.features.supports_timezones:
        return value.replace(tzinfo=UTC)
    # `replace` preserves `fold`, which distinguishes the repeated hour.
    return value.replace(tzinfo=ZoneInfo(connection.timezone_name)).astimezone(UTC)
