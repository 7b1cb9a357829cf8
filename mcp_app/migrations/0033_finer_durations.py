"""Durations in buckets of 20 % each; counts by the older bounds go to the bucket of their middle."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

MODELS = ("rollup", "callerrollup")
FIRST, COLUMNS = 18, 85
# Where the middle of each of the 18 older buckets is among those of now.
PLACES = (0, 0, 3, 7, 11, 16, 20, 24, 28, 33, 36, 41, 45, 49, 54, 59, 65, 70)


def move(apps: Any, schema_editor: Any) -> None:
    """One statement for each table: what is on the right of an assignment is as it was before."""
    sources: dict[int, list[str]] = {}
    for older, place in enumerate(PLACES):
        sources.setdefault(place, []).append(f'"b{older:02}"')
    touched = sorted({*range(FIRST), *sources})
    changes = ", ".join(f'"b{place:02}" = {" + ".join(sources.get(place, ["0"]))}' for place in touched)
    for model in MODELS:
        schema_editor.execute(f"UPDATE mcp_app_{model} SET {changes}")  # noqa: S608 - our own names


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0017_squashed_0032_indexes_of_calls")]

    # Null in older rows: so adding them copies no table, on either database.
    operations = [
        *(
            migrations.AddField(
                model_name=model, name=f"b{number:02}", field=models.IntegerField(null=True)
            )
            for model in MODELS
            for number in range(FIRST, COLUMNS)
        ),
        migrations.RunPython(move, elidable=True),
    ]
