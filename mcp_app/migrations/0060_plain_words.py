"""Name results of requests and permissions in the words of the interface."""

from django.db import migrations, models

PERMISSIONS = [
    ("try_entries", "Can run tools, prompts and resources in the test bench"),
    ("try_as_others", "Can use the test bench as another user"),
    ("publish_entries", "Can publish and roll back catalogue entries"),
    ("run_doctor", "Can run the doctor"),
]


def rename(apps, schema_editor):
    """Name the existing permissions. Django names new ones only."""
    rows = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    for codename, name in PERMISSIONS:
        rows.filter(content_type__app_label="mcp_app", codename=codename).update(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_app", "0059_toolsets"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="tool", options={"ordering": ["position", "id"], "permissions": PERMISSIONS}
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]
