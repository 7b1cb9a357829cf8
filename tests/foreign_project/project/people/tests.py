"""The server in a project with users without usernames and with non-integer keys."""

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import TransactionTestCase
from django.urls import reverse

from mcp_app.auth.api_keys import find_principal, issue_api_key
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.testing import call_tool


class PersonTests(TransactionTestCase):
    """Tests with one superuser who has an API key."""

    def setUp(self):
        """Repeat what ``migrate`` creates: the previous test flushed the database."""
        mirror()
        self.person = get_user_model().objects.create_superuser("ada@acme.example", "a long password")
        self.row, self.secret = issue_api_key(user=self.person, name="desk")

    def test_every_admin_list_opens_searches_and_sorts(self):
        self.client.force_login(self.person)
        for model in apps.get_app_config("mcp_app").get_models():
            if not admin.site.is_registered(model):
                continue
            address = reverse(f"admin:mcp_app_{model._meta.model_name}_changelist")
            for query in ("", "?q=ada", *(f"?o={column}" for column in range(1, 8))):
                with self.subTest(address + query):
                    self.assertEqual(self.client.get(address + query).status_code, 200)

    def test_staff_with_permission_sees_users_of_tool(self):
        grace = get_user_model().objects.create_user("grace@acme.example", "a long password", is_staff=True)
        tool = apps.get_model("mcp_app", "Tool").objects.first()
        address = reverse("admin:mcp_app_tool_callers", args=[tool.pk])
        self.client.force_login(grace)
        self.assertEqual(self.client.get(address).status_code, 403)
        grace.user_permissions.set(Permission.objects.filter(codename__in=["view_person", "view_tool"]))
        self.assertContains(self.client.get(address), "ada@acme.example")

    def test_api_key_identifies_its_user(self):
        principal = find_principal(self.secret)
        self.assertEqual((principal.name, principal.user_id), ("ada@acme.example", self.person.pk))

    def test_tool_is_called_as_user(self):
        result = call_tool("count_orders", {"year": 2026}, user=self.person, stored=True)
        self.assertEqual(result["structuredContent"], {"result": 0})
