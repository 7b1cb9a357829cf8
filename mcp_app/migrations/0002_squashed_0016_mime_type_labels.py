"""Background calls, approval, figures, drafts, tasks: what came after the first version until 22 November 2026."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Count, Max, Min, OuterRef, Subquery
from django.db.models.functions import Coalesce, TruncMinute

import mcp_app.protocol.call_state


def count_what_is_stored(apps, schema_editor):
    """Messages logged before this migration: how many each session has, and where each minute's are."""
    Session, Message = apps.get_model("mcp_app", "Session"), apps.get_model("mcp_app", "Message")
    LogMinute = apps.get_model("mcp_app", "LogMinute")
    counted = Message.objects.filter(session=OuterRef("pk")).order_by().values("session")
    number = Subquery(counted.annotate(number=Count("pk")).values("number"))
    Session.objects.update(messages_logged=Coalesce(number, 0))
    minutes = Message.objects.order_by().annotate(minute=TruncMinute("at")).values_list("minute")
    found = minutes.annotate(Min("id"), Max("id")).iterator(chunk_size=1000)
    LogMinute.objects.bulk_create(
        (LogMinute(at=at, first_id=first, last_id=last) for at, first, last in found), batch_size=300
    )


class Migration(migrations.Migration):

    replaces = [
        ('mcp_app', '0002_call'),
        ('mcp_app', '0003_tool_queueing'),
        ('mcp_app', '0004_view_metrics'),
        ('mcp_app', '0005_roles'),
        ('mcp_app', '0006_approval'),
        ('mcp_app', '0007_figures'),
        ('mcp_app', '0008_tracing'),
        ('mcp_app', '0009_drafts'),
        ('mcp_app', '0010_console'),
        ('mcp_app', '0011_speed'),
        ('mcp_app', '0012_mrtr'),
        ('mcp_app', '0013_tasks'),
        ('mcp_app', '0014_coretasks'),
        ('mcp_app', '0015_uri_labels'),
        ('mcp_app', '0016_mime_type_labels'),
    ]

    dependencies = [
        ('mcp_app', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='tool',
            name='max_running',
            field=models.PositiveIntegerField(blank=True, help_text='Background calls of this tool at once, on all workers. Empty: the value in its code, or no limit.', null=True, verbose_name='maximum running calls'),
        ),
        migrations.AddField(
            model_name='tool',
            name='priority',
            field=models.PositiveSmallIntegerField(blank=True, help_text='0 to 9. Higher priorities run first. Empty: the value in its code, or 0.', null=True),
        ),
        migrations.AddField(
            model_name='tool',
            name='queue',
            field=models.CharField(blank=True, help_text='Celery queue of background calls. A worker must listen to this queue.', max_length=100),
        ),
        migrations.AddField(
            model_name='tool',
            name='retries',
            field=models.PositiveSmallIntegerField(blank=True, help_text='How often a call starts again if its worker stops. Only for idempotent tools in the background. Empty: the value in its code, or none.', null=True),
        ),
        migrations.AlterModelOptions(
            name='apikey',
            options={'ordering': ['-created_at'], 'permissions': [('view_metrics', 'Can read /metrics')], 'verbose_name': 'API key'},
        ),
        migrations.CreateModel(
            name='Call',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('session_id', models.CharField(max_length=64)),
                ('request_id', models.TextField(help_text="The JSON-RPC id as JSON, so that 1 is not '1'.")),
                ('request_key', models.CharField(help_text='Digest of the JSON-RPC id.', max_length=64)),
                ('principal', models.CharField(db_index=True, max_length=120)),
                ('api_key_id', models.BigIntegerField(null=True)),
                ('tool', models.CharField(db_index=True, max_length=128)),
                ('arguments', models.TextField(default='{}')),
                ('digest', models.CharField(max_length=64)),
                ('meta', models.TextField(default='{}')),
                ('session_fields', models.JSONField(default=dict, help_text='The session when the call was accepted.')),
                ('stream', models.CharField(max_length=40)),
                ('state', models.CharField(choices=[('approval_needed', 'approval needed'), ('accepted', 'accepted'), ('running', 'running'), ('input_required', 'input required'), ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'cancelled')], default=mcp_app.protocol.call_state.State['ACCEPTED'], max_length=16)),
                ('attempt', models.PositiveIntegerField(default=0)),
                ('max_attempts', models.PositiveIntegerField(default=1)),
                ('timeout', models.FloatField(help_text='Seconds one attempt may run.')),
                ('queue', models.CharField(default='celery', max_length=100)),
                ('priority', models.PositiveSmallIntegerField(default=0)),
                ('accepted_at', models.DateTimeField(db_index=True)),
                ('enqueued_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('worker', models.CharField(blank=True, max_length=120)),
                ('cancel_reason', models.CharField(blank=True, max_length=200)),
                ('cancel_requested_at', models.DateTimeField(null=True)),
                ('progress', models.FloatField(null=True)),
                ('total', models.FloatField(null=True)),
                ('message', models.TextField(blank=True)),
                ('outcome', models.CharField(blank=True, max_length=12)),
                ('answer', models.TextField(blank=True)),
                ('published', models.BooleanField(default=False)),
                ('retry_of', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='retries', to='mcp_app.call')),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='mcp_calls', to=settings.AUTH_USER_MODEL)),
                ('approval_until', models.DateTimeField(help_text='Until when it may be approved.', null=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('decided_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('decision', models.CharField(blank=True, choices=[('approved', 'approved'), ('refused', 'refused'), ('expired', 'expired')], max_length=10)),
                ('decision_reason', models.TextField(blank=True)),
                ('four_eyes', models.BooleanField(default=False, help_text='Users cannot approve their own calls.')),
                ('reminded_at', models.DateTimeField(help_text='When its client was last told that it waits.', null=True)),
                ('retried_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-accepted_at'],
                'indexes': [models.Index(fields=['state', 'lease_until'], name='mcp_app_cal_state_2f4c5a_idx'), models.Index(fields=['session_id', 'stream'], name='mcp_app_cal_session_7b1a15_idx'), models.Index(fields=['published', 'finished_at'], name='mcp_app_cal_publish_8b2e47_idx')],
                'constraints': [models.UniqueConstraint(fields=('session_id', 'request_key'), name='one_call_per_request')],
                'permissions': [('decide_call', 'Can approve and refuse calls that wait for approval')],
            },
        ),
        migrations.AlterModelOptions(
            name='tool',
            options={'ordering': ['position', 'id'], 'permissions': [('try_entries', 'Can run tools, prompts and resources in the test bench'), ('try_as_others', 'Can run them in the test bench as another user'), ('publish_entries', 'Can publish and roll back catalogue entries'), ('run_doctor', 'Can examine the installation')]},
        ),
        migrations.CreateModel(
            name='Approval',
            fields=[
            ],
            options={
                'ordering': ['-accepted_at'],
                'proxy': True,
                'default_permissions': (),
                'indexes': [],
                'constraints': [],
            },
            bases=('mcp_app.call',),
        ),
        migrations.AddField(
            model_name='tool',
            name='approval_minutes',
            field=models.PositiveIntegerField(blank=True, help_text='In minutes. A call that is not approved by then expires and never starts. Empty: the value in its code, or 60.', null=True, verbose_name='approval expires after'),
        ),
        migrations.AddField(
            model_name='tool',
            name='four_eyes',
            field=models.BooleanField(default=False, help_text='Users cannot approve their own calls.', verbose_name='another user must approve'),
        ),
        migrations.AddField(
            model_name='tool',
            name='needs_approval',
            field=models.BooleanField(default=False, help_text='Each call waits for approval, then runs in the background. Calls of its presets wait as well.'),
        ),
        migrations.CreateModel(
            name='LogMinute',
            fields=[
                ('at', models.DateTimeField(primary_key=True, serialize=False)),
                ('first_id', models.BigIntegerField()),
                ('last_id', models.BigIntegerField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Rollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('span', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
                ('method', models.CharField(max_length=40)),
                ('tool', models.CharField(max_length=128)),
                ('outcome', models.CharField(max_length=12)),
                ('count', models.IntegerField(default=0)),
                ('skipped', models.IntegerField(default=0)),
                ('ms', models.FloatField(default=0)),
                *((f'b{number:02}', models.IntegerField(default=0)) for number in range(18)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='session',
            name='messages_logged',
            field=models.PositiveBigIntegerField(default=0, help_text='Also those that retention removed.'),
        ),
        migrations.AlterField(
            model_name='message',
            name='session',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='mcp_app.session'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(fields=['target', '-id'], name='mcp_app_mes_target_d5c3b2_idx'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(fields=['principal', '-id'], name='mcp_app_mes_princip_591d28_idx'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(fields=['request_id', '-id'], name='mcp_app_mes_request_f0db7a_idx'),
        ),
        migrations.AddConstraint(
            model_name='rollup',
            constraint=models.UniqueConstraint(fields=('span', 'at', 'method', 'tool', 'outcome'), name='one_rollup_per_cell'),
        ),
        migrations.CreateModel(
            name='Doctor',
            fields=[
            ],
            options={
                'verbose_name': 'doctor',
                'verbose_name_plural': 'doctor',
                'proxy': True,
                'default_permissions': (),
                'indexes': [],
                'constraints': [],
            },
            bases=('mcp_app.logcursor',),
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('entry_id', models.PositiveBigIntegerField(null=True)),
                ('key', models.CharField(max_length=500)),
                ('values', models.JSONField(default=dict)),
                ('file', models.FileField(blank=True, max_length=300, upload_to='drafts/')),
                ('note', models.CharField(blank=True, max_length=500)),
                ('revision', models.PositiveBigIntegerField(default=0)),
                ('version', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ['-updated_at', '-id'],
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='cataloguechange',
            name='entry_id',
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='cataloguechange',
            name='why',
            field=models.CharField(blank=True, max_length=500),
        ),
        migrations.AddIndex(
            model_name='cataloguechange',
            index=models.Index(fields=['kind', 'entry_id', '-id'], name='mcp_app_cat_kind_5e379d_idx'),
        ),
        migrations.AddField(
            model_name='draft',
            name='author',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(fields=('kind', 'entry_id'), name='one_draft_of_an_entry'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(condition=models.Q(('entry_id', None)), fields=('kind', 'key'), name='one_draft_of_a_new_entry'),
        ),
        migrations.AddField(
            model_name='message',
            name='position',
            field=models.CharField(blank=True, help_text='Its batch in the queue, and its place in that.', max_length=48),
        ),
        migrations.AddField(
            model_name='call',
            name='inputs',
            field=models.TextField(help_text='What is known of earlier rounds of questions, as JSON.', null=True),
        ),
        migrations.AddField(
            model_name='call',
            name='task_until',
            field=models.DateTimeField(help_text='For a task: until when its client can ask for it. Otherwise null.', null=True),
        ),
        migrations.AddField(
            model_name='call',
            name='progress_at',
            field=models.DateTimeField(help_text='When a task last told its client of progress.', null=True),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('task_until__isnull', False)), fields=['task_until'], name='call_task_until'),
        ),
        migrations.CreateModel(
            name='TaskWait',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('call', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='waits', to='mcp_app.call')),
                ('session_id', models.CharField(max_length=64)),
                ('request_id', models.TextField(help_text="The JSON-RPC id as JSON, so that 1 is not '1'.")),
                ('stream', models.CharField(max_length=40)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('session_id', 'stream'), name='one_wait_per_stream')],
            },
        ),
        migrations.RunPython(count_what_is_stored, migrations.RunPython.noop, elidable=True),
    ]
