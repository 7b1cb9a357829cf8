from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_app", "0012_mrtr"),
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
        migrations.AddIndex(
            model_name="call",
            index=models.Index(
                fields=["task_until"], name="call_task_until", condition=models.Q(task_until__isnull=False)
            ),
        ),
    ]
