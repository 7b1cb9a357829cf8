from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("mcp_app", "0009_drafts"),
    ]

    operations = [
        migrations.AddField(
            model_name="message",
            name="position",
            field=models.CharField(
                blank=True, help_text="Its batch in the queue, and its place in that.", max_length=48
            ),
        ),
    ]
