"""Counts of whole days, from those of their hours: figures of a week are added up from these."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import migrations
from django.db.models import Sum

HOUR, DAY = 3_600, 86_400
NUMBERS = ("count", *(f"b{number:02}" for number in range(85)))
# By model: what tells the rows of one time apart, and what is added up.
MODELS = {
    "Rollup": (("method", "tool", "outcome"), (*NUMBERS, "skipped", "ms")),
    "CallerRollup": (("kind", "name", "outcome"), NUMBERS),
}


def add_days(apps: Any, schema_editor: Any) -> None:
    """Only days of which there are hours: a clock that was wrong may have counted long ago, or far ahead."""
    for name, (keys, numbers) in MODELS.items():
        model = apps.get_model("mcp_app", name)
        rows = model.objects.using(schema_editor.connection.alias)
        hours = rows.filter(span=HOUR).order_by().values_list("at", flat=True).distinct()
        for day in sorted({int(at.timestamp()) // DAY * DAY for at in hours}):
            begin = datetime.fromtimestamp(day, UTC)
            of_day = rows.filter(span=HOUR, at__gte=begin, at__lt=begin + timedelta(days=1)).order_by()
            sums = of_day.values_list(*keys).annotate(**{f"sum_{number}": Sum(number) for number in numbers})
            names = ("span", "at", *keys, *numbers)
            rows.bulk_create(model(**dict(zip(names, (DAY, begin, *row), strict=True))) for row in sums)


def remove_days(apps: Any, schema_editor: Any) -> None:
    """The older version counts no days: those that stayed would lack its calls later."""
    for name in MODELS:
        rows = apps.get_model("mcp_app", name).objects.using(schema_editor.connection.alias)
        rows.filter(span=DAY).delete()


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0033_finer_durations")]

    operations = [migrations.RunPython(add_days, remove_days, elidable=True)]
