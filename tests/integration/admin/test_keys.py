"""API keys: the secret is shown once and never stored; keys are revoked, not edited (S14, S21)."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client, override_settings
from django.utils import timezone

from mcp_app.auth.api_keys import NEVER_ENDS, find_principal
from mcp_app.database import clock
from mcp_app.models import ApiKey, AuditEvent
from mcp_app.protocol.scopes import ALL, BASIC
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed


def _issue(client: Client, user: Any, name: str = "new laptop", **more: Any) -> Any:
    return client.post(page("apikey", "add"), {"user": user.pk, "name": name, "scopes": ALL, **more})


def _secret(answer: Any) -> str:
    found = re.search(r'id="mcp-secret"[^>]*>(mcp_[\w-]+)<', answer.content.decode())
    assert found
    return found[1]


def test_new_key_page_shows_a_working_secret_and_command(root: Client, seeded: Seed) -> None:
    answer = _issue(root, seeded.viewer)
    secret = _secret(answer)
    text = answer.content.decode()
    assert f"--header &quot;Authorization: Bearer {secret}&quot;" in text
    assert "claude mcp add --transport http" in text
    assert "no-store" in answer["Cache-Control"]
    principal = find_principal(secret)
    assert principal is not None
    assert principal.user_id == seeded.viewer.pk


def test_secret_is_stored_nowhere(root: Client, seeded: Seed) -> None:
    secret = _secret(_issue(root, seeded.viewer))
    key = ApiKey.objects.get(name="new laptop")
    pages = [
        page("apikey", "changelist"),
        page("apikey", "change", key.pk),
        page("auditevent", "changelist"),
        "/admin/",
    ]
    pages += [page("auditevent", "change", event.pk) for event in AuditEvent.objects.all()]
    for address in pages:
        assert secret not in root.get(address).content.decode(), address
    stored = [str(row.__dict__) for model in (ApiKey, AuditEvent, LogEntry) for row in model.objects.all()]
    stored += [str(session.get_decoded()) for session in BrowserSession.objects.all()]
    assert not [row for row in stored if secret in row]
    assert secret not in str(root.cookies)


def test_issuing_and_revoking_keys_is_audited(root: Client, seeded: Seed) -> None:
    _issue(root, seeded.viewer)
    key = ApiKey.objects.get(name="new laptop")
    root.post(page("apikey", "revoke", key.pk))
    done = AuditEvent.objects.filter(object_key=str(key), actor=seeded.root).order_by("id")
    assert [event.action for event in done] == ["api_key.issue", "api_key.revoke"]


def test_revoked_key_stops_working_and_stays_listed(root: Client, seeded: Seed) -> None:
    secret = _secret(_issue(root, seeded.viewer))
    key = ApiKey.objects.get(name="new laptop")
    root.post(page("apikey", "changelist"), {"action": "revoke_keys", "_selected_action": [key.pk]})
    assert find_principal(secret) is None
    listed = root.get(page("apikey", "changelist") + "?state=revoked").context["cl"].result_list
    assert key in listed


def test_new_key_page_shows_scopes_expiry_and_a_revoke_button(root: Client, seeded: Seed) -> None:
    text = _issue(root, seeded.viewer, scopes=["mcp:tools"], lifetime="30").content.decode()
    key = ApiKey.objects.get(name="new laptop")
    assert ">mcp:tools<" in text
    assert str(key.expires_at.year) in text
    assert f'action="{page("apikey", "revoke", key.pk)}?from_page=1"' in text


def test_revoked_key_page_shows_when_and_by_whom(root: Client, seeded: Seed) -> None:
    address = page("apikey", "change", seeded.key.pk)
    assert "field-revoked" not in root.get(address).content.decode()
    said = root.post(page("apikey", "revoke", seeded.key.pk) + "?from_page=1", follow=True).content.decode()
    assert re.search(r"</time> by <bdi[^>]*>root<", said)
    AuditEvent.objects.all()._raw_delete("default")
    assert " by <bdi" not in root.get(address).content.decode()


def test_key_expiry_must_be_in_the_future(root: Client, seeded: Seed) -> None:
    answer = _issue(root, seeded.viewer, expires_at_0="2020-01-01", expires_at_1="00:00:00")
    assert "a key must expire in the future" in answer.content.decode()
    later = timezone.localtime(clock.utcnow() + timedelta(days=2))
    _issue(root, seeded.viewer, expires_at_0=f"{later:%Y-%m-%d}", expires_at_1=f"{later:%H:%M:%S}")
    assert abs(ApiKey.objects.get(name="new laptop").expires_at - later) < timedelta(seconds=2)


@pytest.mark.parametrize("days", ["30", "90", "365", ""])
def test_lifetime_choices_set_the_expiry_and_never_warns(root: Client, seeded: Seed, days: str) -> None:
    answer = _issue(root, seeded.viewer, lifetime=days)
    ends = ApiKey.objects.get(name="new laptop").expires_at
    assert (NEVER_ENDS in answer.content.decode()) == (not days)
    if days:
        assert abs(ends - clock.utcnow() - timedelta(days=int(days))) < timedelta(minutes=1)
    else:
        assert ends is None


def test_key_form_defaults_to_no_user_basic_scopes_and_90_days(root: Client, seeded: Seed) -> None:
    answer = root.get(page("apikey", "add"))
    form = answer.context["adminform"].form
    assert (form["lifetime"].initial, tuple(form["scopes"].initial)) == ("90", BASIC)
    assert re.search(r'<option value=""[^>]*selected', str(form["user"]))
    assert 'id="add_id_user"' in answer.content.decode()
    nobody = root.post(page("apikey", "add"), {"user": "", "name": "new laptop", "scopes": BASIC})
    assert "user" in nobody.context["adminform"].form.errors


def test_key_form_requires_known_scopes(root: Client, seeded: Seed) -> None:
    refused = _issue(root, seeded.viewer, scopes=[])
    assert "scopes" in refused.context["adminform"].form.errors
    unknown = _issue(root, seeded.viewer, scopes=["mcp:everything"])
    assert "scopes" in unknown.context["adminform"].form.errors
    _issue(root, seeded.viewer, scopes=["mcp:tools", "mcp"])
    key = ApiKey.objects.get(name="new laptop")
    assert key.scopes == "mcp mcp:tools"
    assert "mcp mcp:tools" in root.get(page("apikey", "change", key.pk)).content.decode()
    assert AuditEvent.objects.latest("pk").detail["scopes"] == "mcp mcp:tools"


def test_scope_descriptions_refer_to_the_key_user(root: Client) -> None:
    words = unescape(root.get(page("apikey", "add")).content.decode())
    assert "Call tools as the key's user:" in words
    assert "as far as the key's user may" in words
    assert "as you" not in words


def test_key_name_with_hidden_characters_is_refused(root: Client, seeded: Seed) -> None:
    answer = _issue(root, seeded.viewer, "lap\u202etop")
    assert "Hidden characters are not allowed: lap⟦U+202E⟧top" in answer.content.decode()
    assert not ApiKey.objects.filter(user=seeded.viewer, name__startswith="lap").exists()


def test_staff_may_issue_keys_only_for_themselves(client_of: ClientOf, seeded: Seed) -> None:
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="add_apikey"))
    viewer = client_of("viewer")
    refused = _issue(viewer, seeded.root)
    assert "user" in refused.context["adminform"].form.errors
    assert not ApiKey.objects.filter(name="new laptop").exists()
    assert _secret(_issue(viewer, seeded.viewer))


def test_key_is_not_editable_and_is_deleted_with_its_user(root: Client, seeded: Seed) -> None:
    address = page("apikey", "change", seeded.key.pk)
    assert root.post(address, {"name": "renamed"}).status_code == 403
    assert root.post(page("apikey", "delete", seeded.key.pk), {"post": "yes"}).status_code == 403
    root.post(f"/admin/auth/user/{seeded.viewer.pk}/delete/", {"post": "yes"})
    assert not ApiKey.objects.filter(name="build server").exists()


def test_key_list_filters_by_state(root: Client, seeded: Seed) -> None:
    ApiKey.objects.filter(name="build server").update(expires_at=timezone.now() - timedelta(days=1))
    for state, names in {
        "active": {"laptop"},
        "expired": {"build server"},
        "revoked": {"lost phone"},
    }.items():
        listed = root.get(page("apikey", "changelist") + f"?state={state}").context["cl"].result_list
        assert names <= {key.name for key in listed}
        assert len({"laptop", "build server", "lost phone"} & {key.name for key in listed}) == 1


@pytest.mark.parametrize(("auth", "needed"), [("required", True), ("loopback", False)])
def test_index_shows_connect_command_without_a_secret(
    auth: str, needed: bool, root: Client, seeded: Seed
) -> None:
    with override_settings(MCP={**settings.MCP, "AUTH": auth}):
        text = root.get("/admin/").content.decode()
    assert "claude mcp add --transport http django-mcp http://127.0.0.1:8000/mcp" in text
    assert ("Authorization: Bearer YOUR_API_KEY" in text) == needed


def test_expiring_key_is_marked_and_stays_active(root: Client, seeded: Seed) -> None:
    ApiKey.objects.all().delete()
    now = clock.utcnow()
    for name, days in (("soon", 3), ("later", 30), ("over", -1), ("never", None)):
        ends = None if days is None else now + timedelta(days=days)
        ApiKey.objects.create(user=seeded.viewer, name=name, secret_hash=name, expires_at=ends)
    ApiKey.objects.create(
        user=seeded.viewer, name="taken", secret_hash="t", expires_at=now + timedelta(days=3), revoked_at=now
    )

    def listed(state: str) -> set[str]:
        rows = root.get(page("apikey", "changelist"), {"state": state}).context["cl"].result_list
        return {key.name for key in rows}

    assert listed("ends soon") == {"soon"}
    assert listed("active") == {"soon", "later", "never"}
    rows = root.get(page("apikey", "changelist")).content.decode()
    assert rows.count('<span class="mcp-badge mcp-badge-warn">ends soon</span>') == 1
