from django.apps import apps as django_apps
from django.conf import settings
from django.db import migrations


def store_users_and_groups(apps, schema_editor):
    """Store the users and groups that limits name, and what groups used under their numbers."""
    rules, usage = (apps.get_model("mcp_app", name) for name in ("LimitRule", "LimitUsage"))
    people = apps.get_model(settings.AUTH_USER_MODEL)
    groups = apps.get_model("auth", "Group")
    field = django_apps.get_model(settings.AUTH_USER_MODEL).USERNAME_FIELD
    for rule in rules.objects.filter(who="user").exclude(who_value="*"):
        rule.user_id = people.objects.filter(**{field: rule.who_value}).values_list("pk", flat=True).first()
        rule.save(update_fields=["user"])
    for rule in rules.objects.filter(who__in=("group", "member")):
        rule.group_id = groups.objects.filter(name=rule.who_value).values_list("pk", flat=True).first()
        rule.save(update_fields=["group"])
        used = usage.objects.filter(rule=rule, subject=f"group:{rule.who_value}")
        if rule.group_id is not None:
            used.update(subject=f"group:{rule.group_id}")


class Migration(migrations.Migration):

    dependencies = [
        ('mcp_app', '0067_limits_of_renamed_users'),
    ]

    operations = [
        migrations.RunPython(store_users_and_groups, migrations.RunPython.noop),
    ]
