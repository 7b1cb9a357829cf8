"""Bounds of background calls, and their turns, count people."""

from django.db import migrations, models

from mcp_app.protocol.call_state import OPEN
from mcp_app.protocol.principal_key import person_of


def name_people(apps, schema_editor):
    """Name the people of open calls: no bound counts the others."""
    calls = apps.get_model("mcp_app", "Call").objects.using(schema_editor.connection.alias)
    unnamed = calls.filter(state__in=OPEN, person="").order_by()
    for principal in set(unnamed.values_list("principal", flat=True)):
        unnamed.filter(principal=principal).update(person=person_of(principal))


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0037_approved_work")]

    operations = [
        migrations.RemoveIndex(model_name="call", name="call_of_principal"),
        migrations.RemoveIndex(model_name="call", name="call_asking"),
        migrations.AddField(
            model_name="call",
            name="person",
            field=models.CharField(
                db_default="",
                editable=False,
                help_text="For whom it counts: person_of(principal).",
                max_length=120,
            ),
        ),
        migrations.AddIndex(
            model_name="call",
            index=models.Index(
                fields=["person", "queue", "lane", "priority", "start_tag"], name="call_of_person"
            ),
        ),
        migrations.AddIndex(
            model_name="call",
            index=models.Index(
                condition=models.Q(("state", "input_required")),
                fields=["person", "lease_until"],
                name="call_asked",
            ),
        ),
        migrations.RunPython(name_people, migrations.RunPython.noop, elidable=True),
    ]
