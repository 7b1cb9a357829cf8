
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("mcp_app", "0011_speed"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="inputs",
            field=models.TextField(help_text="What is known of earlier rounds of questions, as JSON.", null=True),
        ),
        migrations.AlterField(
            model_name="message",
            name="outcome",
            field=models.CharField(blank=True, choices=[("ok", "ok"), ("tool_error", "tool error"), ("error", "error"), ("cancelled", "cancelled"), ("asked", "asked")], max_length=12),
        ),
    ]
