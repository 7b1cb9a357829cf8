from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_app", "0011_speed"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="task_until",
            field=models.DateTimeField(null=True, help_text="A task: until when its client may ask for it."),
        ),
        migrations.AddField(
            model_name="call",
            name="progress_at",
            field=models.DateTimeField(
                null=True, help_text="When a task last told its client of progress."
            ),
        ),
    ]
