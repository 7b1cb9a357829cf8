"""Record the permissions given to each role, so that later versions give it only new ones."""

from django.db import migrations, models

# The permissions of the roles before this record existed.
VIEWED = (
    "tool prompt resource resourcetemplate cataloguechange session message call apikey externalidentity auditevent"
)
AUDITOR = {f"mcp_app.view_{model}" for model in VIEWED.split()} | {"mcp_oauth.view_client", "mcp_oauth.view_connection"}
OPERATOR = AUDITOR | {
    *(f"mcp_app.{each}" for each in "change_session change_call decide_call try_entries run_doctor view_metrics".split()),
    "mcp_oauth.change_connection",
}
ADMINISTRATOR = OPERATOR | {
    *(f"mcp_app.{verb}_{model}" for model in VIEWED.split()[:4] for verb in ("add", "change", "delete")),
    *(f"mcp_app.{each}" for each in "publish_entries try_as_others share_searches add_apikey change_apikey".split()),
    *(f"mcp_oauth.{each}" for each in "add_client add_machine_client change_client".split()),
}
ROLES = {"MCP auditor": AUDITOR, "MCP operator": OPERATOR, "MCP administrator": ADMINISTRATOR}


def record(apps, schema_editor):
    """What a group lacks of what existed was taken away. One without any permission of mcp_oauth never got those."""
    using = schema_editor.connection.alias
    offered = apps.get_model("mcp_app", "OfferedPermission").objects.using(using)
    permissions = apps.get_model("auth", "Permission").objects.using(using)
    for group in apps.get_model("auth", "Group").objects.using(using).filter(name__in=ROLES):
        for label in ("mcp_app", "mcp_oauth"):
            own = permissions.filter(content_type__app_label=label)
            if label == "mcp_oauth" and not own.filter(group=group).exists():
                continue
            names = ROLES[group.name] & {f"{label}.{codename}" for codename in own.values_list("codename", flat=True)}
            offered.bulk_create(offered.model(role=group.name, permission=name) for name in sorted(names))


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_app", "0038_calls_of_people"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.CreateModel(
            name="OfferedPermission",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(max_length=40)),
                ("permission", models.CharField(max_length=200)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("role", "permission"), name="mcp_app_permission_is_offered_once"
                    )
                ],
            },
        ),
        migrations.RunPython(record, migrations.RunPython.noop),
    ]
