"""Bytes of messages, and sums of bytes and durations, for figures of cost."""

from __future__ import annotations

from django.db import migrations, models

BYTES = (("message", "size"), ("rollup", "size"), ("callerrollup", "size"))


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0045_http_tools")]

    # Null in older rows: so adding them copies no table, on either database.
    operations = [
        *(
            migrations.AddField(model_name=model, name=name, field=models.BigIntegerField(null=True))
            for model, name in BYTES
        ),
        migrations.AddField(model_name="callerrollup", name="ms", field=models.FloatField(null=True)),
    ]
