import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_app", "0013_tasks"),
    ]

    operations = [
        migrations.CreateModel(
            name="TaskWait",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "call",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="waits", to="mcp_app.call"
                    ),
                ),
                ("session_id", models.CharField(max_length=64)),
                (
                    "request_id",
                    models.TextField(help_text="The JSON-RPC id as JSON, so that 1 is not '1'."),
                ),
                ("stream", models.CharField(max_length=40)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("session_id", "stream"), name="one_wait_per_stream"),
                ],
            },
        ),
    ]
