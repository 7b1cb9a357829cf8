"""Counts over time, stored longer than the message log, and the id range of each minute's messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField

# Upper bounds of the duration buckets in seconds, from 1 ms to more than an hour. The last bucket has no
# upper bound. Each bound is 1.2 times the previous one, so all values in a bucket are within 10 % of its
# middle.
STEP: Final = 1.2
BOUNDS: Final = tuple(round(0.001 * STEP**number, 9) for number in range(84))
# One column for each duration bucket, including the last, which has no upper bound.
BUCKET_COLUMNS: Final = tuple(f"b{number:02}" for number in range(len(BOUNDS) + 1))
# Number of bucket columns that have always existed. The columns added later are null in older rows.
FIRST_COLUMNS: Final = 18


class Count(models.Model):
    """The number of events with one outcome within ``span`` seconds from ``at``."""

    span = models.PositiveIntegerField()
    at = AwareDateTimeField()
    outcome = models.CharField(max_length=12)
    # Small integers, because PostgreSQL sums them several times as fast as large integers.
    count = models.IntegerField(default=0)

    class Meta:
        abstract = True
        # No permissions: the home page shows these counts to users who may view messages or calls.
        default_permissions = ()


def _one_of_each(*keys: str, name: str) -> models.UniqueConstraint:
    return models.UniqueConstraint(fields=["span", "at", *keys, "outcome"], name=name)


class Rollup(Count):
    """Messages of one method, tool and outcome within ``span`` seconds from ``at``, logged or not.

    Rows without a ``tool`` count every message once. Rows with a ``tool`` count the tool calls a second
    time, by tool. ``outcome`` is empty for messages that are not requests. ``skipped`` is how many of the
    ``count`` messages are not in the log. ``ms`` is the sum of durations. ``size`` is the sum of bytes of the
    logged messages, and null in older rows.
    """

    method = models.CharField(max_length=40)
    tool = models.CharField(max_length=128)
    skipped = models.IntegerField(default=0)
    ms = models.FloatField(default=0)
    size = models.BigIntegerField(null=True)

    class Meta(Count.Meta):
        constraints: ClassVar[Any] = [_one_of_each("method", "tool", name="one_rollup_per_cell")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} +{self.span} s {self.method} {self.tool} {self.outcome}"


class CallerRollup(Count):
    """Logged tool calls of one client or principal within ``span`` seconds from ``at``.

    ``ms`` and ``size`` are the sums of durations and bytes. Both are null in older rows.
    """

    class Kind(models.TextChoices):
        """The kind of caller."""

        CLIENT = "client", "client"
        PRINCIPAL = "principal", "principal"

    kind = models.CharField(max_length=9, choices=Kind.choices)
    name = models.CharField(max_length=200)
    ms = models.FloatField(null=True)
    size = models.BigIntegerField(null=True)

    class Meta(Count.Meta):
        constraints: ClassVar[Any] = [_one_of_each("kind", "name", name="one_caller_rollup_per_cell")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} +{self.span} s {self.kind} {self.name} {self.outcome}"


for _number, _column in enumerate(BUCKET_COLUMNS):
    for _model in (Rollup, CallerRollup):
        _is_first = _number < FIRST_COLUMNS
        _model.add_to_class(
            _column, models.IntegerField(default=0) if _is_first else models.IntegerField(null=True)
        )


class LogMinute(models.Model):
    """The id range of one minute's messages. The log is in order of arrival, not exactly of time."""

    at = AwareDateTimeField(primary_key=True)
    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M}: {self.first_id} to {self.last_id}"


def added(
    table: str, keys: Sequence[str], numbers: Sequence[str], buckets: Sequence[int], *, rows: int
) -> str:
    """Return SQL that adds ``rows`` rows of counts, with values in these buckets, to the stored counts."""
    names = [*keys, *numbers, *(BUCKET_COLUMNS[bucket] for bucket in buckets)]
    # In an INSERT, missing counts are 0 in columns that are not nullable.
    zeros = [name for name in BUCKET_COLUMNS[:FIRST_COLUMNS] if name not in names]
    columns = ", ".join(f'"{name}"' for name in (*names, *zeros))
    marks = ", ".join((*["%s"] * len(names), *["0"] * len(zeros)))
    sums = ", ".join(
        f'"{name}" = COALESCE({table}."{name}", 0) + excluded."{name}"' for name in names[len(keys) :]
    )
    target, values = ", ".join(f'"{name}"' for name in keys), ", ".join([f"({marks})"] * rows)
    return (
        f"INSERT INTO {table} ({columns}) VALUES {values} "  # noqa: S608 - our own names
        f"ON CONFLICT ({target}) DO UPDATE SET {sums}"
    )
