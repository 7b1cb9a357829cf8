from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("mcp_app", "0010_console"),
    ]

    operations = [
        # The index on state and lease_until answers what was asked of this one.
        migrations.AlterField(
            model_name="call",
            name="lease_until",
            field=models.DateTimeField(null=True),
        ),
    ]
