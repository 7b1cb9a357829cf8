"""Lists of decided calls and figures of approvals read an index."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0034_rollups_of_days"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('approval_until__isnull', False)), fields=['decision', 'accepted_at'], name='call_decided'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('approval_until__isnull', False)), fields=['tool', 'decision', 'user'], name='call_decided_of_tool'),
        ),
    ]
