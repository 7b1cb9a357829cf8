"""Approvals hold for what runs; API keys name their issuers."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('mcp_app', '0036_failed_calls'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='issued_by',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='call',
            name='catalogue_revision',
            field=models.BigIntegerField(editable=False, help_text='The catalogue in which its caller found the tool.', null=True),
        ),
        migrations.AddField(
            model_name='call',
            name='work',
            field=models.CharField(blank=True, db_default='', editable=False, help_text='Digest of the code and the arguments that an approval holds for.', max_length=64),
        ),
    ]
