"""Add machines: service users, scopes, keys and the ids of used assertions."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import mcp_app.database.aware_times

METHODS = [
    ("none", "none: it runs on people's machines"),
    ("client_secret_basic", "a secret, in the Authorization header"),
    ("client_secret_post", "a secret, in the form"),
    ("private_key_jwt", "a key of its own (machines only)"),
]
PERMISSION = ("add_machine_client", "Can enter machines, each with a service user of its own")


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_oauth", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="UsedAssertion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("expires_at", mcp_app.database.aware_times.AwareDateTimeField(db_index=True)),
            ],
            options={"abstract": False},
        ),
        migrations.AlterModelOptions(
            name="client",
            options={
                "ordering": ["-created"],
                "permissions": [PERMISSION],
                "verbose_name": "OAuth client",
            },
        ),
        migrations.AddField(
            model_name="client",
            name="jwks",
            field=models.TextField(blank=True, db_default=""),
        ),
        migrations.AddField(
            model_name="client",
            name="jwks_uri",
            field=models.CharField(blank=True, db_default="", max_length=500),
        ),
        migrations.AddField(
            model_name="client",
            name="scope",
            field=models.CharField(blank=True, db_default="", editable=False, max_length=255),
        ),
        migrations.AddField(
            model_name="client",
            name="service_user",
            field=models.OneToOneField(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="mcp_machine",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
