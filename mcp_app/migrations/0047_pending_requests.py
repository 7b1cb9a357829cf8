"""Requests without an answer: their marks get a column with an index, and former marks are deleted."""

from django.db import migrations, models


def delete_marks(apps, schema_editor):
    """Delete the marks of former versions. Most of them are of requests that have been answered."""
    messages = apps.get_model("mcp_app", "Message").objects.using(schema_editor.connection.alias)
    marks = messages.filter(kind__in=("running", "waiting"))
    marks.filter(skipped=0).delete()
    # These also count messages that were not logged.
    marks.update(kind="skipped", method="", request_id="", target="", payload="")


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_app", "0046_sizes_of_calls"),
    ]

    operations = [
        migrations.AddField(
            model_name="message",
            name="pending",
            field=models.CharField(max_length=12, null=True),
        ),
        migrations.RunPython(delete_marks, migrations.RunPython.noop, elidable=True),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("pending__isnull", False)),
                fields=["pending", "session"],
                name="mcp_message_pending",
            ),
        ),
    ]
