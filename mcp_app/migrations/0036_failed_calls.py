"""Lists of calls that did not end well read an index."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0035_decided_calls"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('outcome__in', ['', 'ok']), _negated=True), fields=['outcome', 'accepted_at'], name='call_not_ok'),
        ),
    ]
