"""Fair order of calls, identities from elsewhere, errors, searches, notifications: until 24 November 2026."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('mcp_app', '0017_four_eyes'),
        ('mcp_app', '0018_fair_order'),
        ('mcp_app', '0019_content_revision'),
        ('mcp_app', '0020_external_identity'),
        ('mcp_app', '0021_callers'),
        ('mcp_app', '0022_scopes_of_calls'),
        ('mcp_app', '0023_errors'),
        ('mcp_app', '0024_calls_that_ask'),
        ('mcp_app', '0025_saved_searches'),
        ('mcp_app', '0026_scopes_of_keys'),
        ('mcp_app', '0027_time_zones'),
        ('mcp_app', '0028_notifications'),
        ('mcp_app', '0029_service_users'),
        ('mcp_app', '0030_background_calls'),
        ('mcp_app', '0031_connections_of_calls'),
        ('mcp_app', '0032_indexes_of_calls'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('mcp_app', '0002_squashed_0016_mime_type_labels'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='call',
            name='retried_before',
            field=models.TextField(help_text='Users who had the calls that this one repeats made again, as JSON.', null=True),
        ),
        migrations.AddField(
            model_name='call',
            name='lane',
            field=models.CharField(blank=True, db_default='', help_text='The tool, if only so many of its calls may run at once: they wait for each other.', max_length=128),
        ),
        migrations.AddField(
            model_name='call',
            name='start_tag',
            field=models.FloatField(db_default=0.0, help_text='Place in the fair order of waiting calls: the lowest is begun next.'),
        ),
        migrations.AlterField(
            model_name='call',
            name='principal',
            field=models.CharField(max_length=120),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(fields=['principal', 'queue', 'lane', 'priority', 'start_tag'], name='call_of_principal'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('state', 'accepted')), fields=['queue', 'lane', '-priority', 'start_tag', 'accepted_at'], name='call_next'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('started_at__isnull', False)), fields=['queue', 'lane', 'priority', 'start_tag'], name='call_begun'),
        ),
        migrations.AddField(
            model_name='resource',
            name='content_revision',
            field=models.BigIntegerField(db_default=0, default=0, editable=False, help_text='The revision at which the content last changed.'),
        ),
        migrations.CreateModel(
            name='ExternalIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('issuer', models.CharField(max_length=255)),
                ('subject', models.CharField(max_length=255)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('groups_at', models.BigIntegerField(editable=False, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mcp_identities', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'external identity',
                'verbose_name_plural': 'external identities',
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='mcp_app_identity_is_one_person')],
            },
        ),
        migrations.CreateModel(
            name='CallerRollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('span', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
                ('kind', models.CharField(choices=[('client', 'client'), ('principal', 'principal')], max_length=9)),
                ('name', models.CharField(max_length=200)),
                ('outcome', models.CharField(max_length=12)),
                ('count', models.IntegerField(default=0)),
                *((f'b{number:02}', models.IntegerField(default=0)) for number in range(18)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('span', 'at', 'kind', 'name', 'outcome'), name='one_caller_rollup_per_cell')],
            },
        ),
        migrations.AddField(
            model_name='call',
            name='scopes',
            field=models.CharField(blank=True, db_default='', editable=False, max_length=255),
        ),
        migrations.CreateModel(
            name='ErrorGroup',
            fields=[
                ('digest', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('method', models.CharField(max_length=120)),
                ('tool', models.CharField(max_length=128)),
                ('outcome', models.CharField(max_length=12)),
                ('words', models.CharField(max_length=200)),
                ('example', models.TextField()),
                ('first_at', models.DateTimeField(db_index=True)),
                ('last_at', models.DateTimeField(db_index=True)),
                ('first_id', models.BigIntegerField()),
                ('last_id', models.BigIntegerField()),
                ('count', models.BigIntegerField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ErrorHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True)),
                ('count', models.IntegerField()),
                ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='hours', to='mcp_app.errorgroup')),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('group', 'at'), name='one_error_hour_per_group')],
            },
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('state', 'input_required')), fields=['principal', 'lease_until'], name='call_asking'),
        ),
        migrations.CreateModel(
            name='SavedSearch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('text', models.CharField(max_length=300)),
                ('shared', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mcp_searches', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'saved searches',
                'permissions': [('share_searches', 'Can share saved searches of the log')],
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('user', 'name'), name='mcp_app_search_has_one_name')],
            },
        ),
        migrations.AddField(
            model_name='apikey',
            name='scopes',
            field=models.CharField(db_default='mcp mcp:tools mcp:resources mcp:prompts mcp:admin', default='mcp mcp:tools mcp:resources mcp:prompts mcp:admin', max_length=255),
        ),
        migrations.CreateModel(
            name='TimeZoneChoice',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='mcp_time_zone', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('zone', models.CharField(max_length=64)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='NotificationChannel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('way', models.CharField(choices=[('browser', 'browser'), ('email', 'email'), ('webhook', 'webhook')], max_length=10)),
                ('kinds', models.JSONField(default=list)),
                ('address', models.CharField(blank=True, max_length=500)),
                ('secret', models.TextField(blank=True, help_text='Sealed; signs what is sent to the address.')),
                ('told', models.JSONField(default=list)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('due_at', models.DateTimeField(db_index=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, max_length=300)),
                ('error_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('user', 'way'), name='one_channel_of_a_way')],
            },
        ),
        migrations.CreateModel(
            name='ServiceUser',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='mcp_service_user', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.AlterModelOptions(
            name='call',
            options={'ordering': ['-accepted_at'], 'permissions': [('decide_call', 'Can approve and refuse calls that wait for approval')], 'verbose_name': 'background call'},
        ),
        migrations.AddField(
            model_name='call',
            name='connection_id',
            field=models.BigIntegerField(editable=False, null=True),
        ),
        migrations.RemoveIndex(
            model_name='call',
            name='mcp_app_cal_session_7b1a15_idx',
        ),
        migrations.RemoveIndex(
            model_name='call',
            name='mcp_app_cal_publish_8b2e47_idx',
        ),
        migrations.AlterField(
            model_name='call',
            name='retry_of',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='retries', to='mcp_app.call'),
        ),
        migrations.AlterField(
            model_name='call',
            name='user',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='mcp_calls', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('finished_at__isnull', False), ('published', False)), fields=['finished_at'], name='call_unpublished'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('user__isnull', False)), fields=['user'], name='call_of_user'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('retry_of__isnull', False)), fields=['retry_of'], name='call_retry_of'),
        ),
    ]
