"""Name connections and the permission to add service users in the words of the interface."""

from django.db import migrations

MACHINES = ("add_machine_client", "Can add OAuth clients with a service user")


def rename(apps, schema_editor):
    """Name the existing permissions. Django names new ones only."""
    rows = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    rows = rows.filter(content_type__app_label="mcp_oauth")
    rows.filter(codename=MACHINES[0]).update(name=MACHINES[1])
    for action in ("add", "change", "delete", "view"):
        rows.filter(codename=f"{action}_connection").update(name=f"Can {action} OAuth connection")


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_oauth", "0004_client_authentication_labels"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="client",
            options={"ordering": ["-created"], "permissions": [MACHINES], "verbose_name": "OAuth client"},
        ),
        migrations.AlterModelOptions(
            name="connection", options={"ordering": ["-created_at"], "verbose_name": "OAuth connection"}
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]
