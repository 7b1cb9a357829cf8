"""Times in our tables: aware in Python and UTC in the database, also where a project has switched USE_TZ off.

Django would then write and read naive times of the project's zone, which twice a year are wrong by an hour,
or mean two moments: leases and expiries need the one they mean.
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
    """Django's field, except where USE_TZ is off; to migrations the same."""

    def deconstruct(self) -> Any:
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.DateTimeField", arguments, options

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        if self.auto_now or (self.auto_now_add and add):
            setattr(model_instance, self.attname, datetime.now(UTC))
        return getattr(model_instance, self.attname)

    def to_python(self, value: Any) -> Any:
        """What a form or a person gives without a zone is meant in the project's."""
        return aware(super().to_python(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        return parameter(value, connection)

    def get_db_converters(self, connection: Any) -> list[Callable[..., Any]]:
        return [] if settings.USE_TZ else [_as_read]


if TYPE_CHECKING:
    # Type checkers know what Django's holds, with and without null.
    AwareDateTimeField = models.DateTimeField
else:
    AwareDateTimeField = _AwareDateTimeField


def aware(at: datetime | None) -> datetime | None:
    """A time that may come from code or forms of a project whose times have no zone."""
    if at is None or settings.USE_TZ or timezone.is_aware(at):
        return at
    return timezone.make_aware(at, timezone.get_default_timezone())


def parameter(at: datetime | None, connection: Any) -> Any:
    """A moment as a parameter of SQL."""
    if at is not None and not settings.USE_TZ and not connection.features.supports_timezones:
        # Django refuses to drop a zone there.
        at = at.astimezone(UTC).replace(tzinfo=None)
    return connection.ops.adapt_datetimefield_value(at)


def _as_read(value: Any, _expression: Any, connection: Any) -> Any:
    """What Django has read without a zone, which databases that know none gave in UTC."""
    if not isinstance(value, datetime) or timezone.is_aware(value):
        return value
    if not connection.features.supports_timezones:
        return value.replace(tzinfo=UTC)
    # `fold` is kept: the hour that the clock shows twice is read as the one that it was.
    return value.replace(tzinfo=ZoneInfo(connection.timezone_name)).astimezone(UTC)
