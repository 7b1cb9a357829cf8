from django.db import migrations
from django.db.models import Q

BEGINNINGS = ("The tool failed unexpectedly (incident", "Internal error (incident")


def mark(apps, schema_editor):
    """Mark stored errors that are faults by their texts, because their exceptions were not stored."""
    of_code = Q(words__contains=" timed out after ")
    for beginning in BEGINNINGS:
        of_code |= Q(words__startswith=beginning)
    apps.get_model("mcp_app", "ErrorGroup").objects.filter(of_code).update(is_fault=True)


class Migration(migrations.Migration):

    dependencies = [
        ("mcp_app", "0042_exceptions"),
    ]

    operations = [
        migrations.RunPython(mark, migrations.RunPython.noop, elidable=True),
    ]
