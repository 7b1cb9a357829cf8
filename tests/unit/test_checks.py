"""System checks: each error has an id and a hint; valid settings report nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import CheckMessage, run_checks
from django.core.management import CommandError
from django.db.migrations.recorder import MigrationRecorder
from django.test import override_settings
from django.urls import include, path, re_path
from django.views.static import serve

from mcp_app import optional_parts, tool
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.models import Tool
from mcp_app.models.catalogue import StoredSource
from mcp_app.notices.channels import choose
from mcp_app.optional_parts import Part
from mcpsite.first_start import prepare

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "checks.md"
SOURCE = Path(__file__).resolve().parents[2] / "mcp_app" / "checks"
REDIS = {"CELERY_BROKER_URL": "redis://h", "CELERY_BROKER_TRANSPORT": "redis"}


def found(**options: Any) -> dict[str, CheckMessage]:
    """Return the library's messages by id."""
    messages = run_checks(**options)
    return {message.id: message for message in messages if (message.id or "").startswith("mcp_app.")}


def mcp(**changed: Any) -> dict[str, Any]:
    return {"MCP": {**settings.MCP, **changed}}


class OfAnother:
    """A router that keeps all models of an app in another database."""

    label = "shop"

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return "elsewhere" if model._meta.app_label == self.label else None

    db_for_write = db_for_read

    def allow_migrate(self, database: str, label: str, **_: Any) -> bool | None:
        return database == "elsewhere" if label == self.label else None


class OfOurs(OfAnother):
    label = "mcp_app"


class CopiesForReading:
    def db_for_read(self, model: Any, **_: Any) -> str:
        return "copy"


class Nowhere:
    def allow_migrate(self, *_: Any, **__: Any) -> bool:
        return False


def test_router_may_not_move_library_models() -> None:
    here = f"{__name__}."
    with override_settings(DATABASE_ROUTERS=[here + "OfAnother"]):
        assert "mcp_app.E031" not in found()
    for name, told in (
        ("OfOurs", "in 'elsewhere':"),
        ("CopiesForReading", "in 'copy':"),
        ("Nowhere", "in another database:"),
    ):
        with override_settings(DATABASE_ROUTERS=[here + name]):
            message = found()["mcp_app.E031"]
        assert told in message.msg
        assert "'mcp_app' and 'mcp_oauth'" in str(message.hint)


def test_settings_of_this_project_pass() -> None:
    assert found() == {}


@pytest.mark.parametrize(
    ("values", "expected", "words"),
    [
        ({"MCP": {"NO_SUCH": 1}}, "mcp_app.E001", "NO_SUCH"),
        ({"MCP": {"PUBLIC_URL": "nonsense"}}, "mcp_app.E001", "nonsense"),
        (mcp(STATE_KEYS=["a" * 32, "short"]), "mcp_app.E001", "32 characters"),
        (mcp(AUTH="loopback", LOOPBACK=False), "mcp_app.E002", "other machines"),
        ({"DEBUG": True, **mcp(PUBLIC_URL="https://mcp.example.com")}, "mcp_app.W003", "mcp.example.com"),
        (REDIS, "mcp_app.W004", "CELERY_BROKER_TRANSPORT"),
        (mcp(LOOPBACK=False, AUTH="required", ALLOWED_HOSTS=[]), "mcp_app.W005", "421"),
        (mcp(AUTH="external"), "mcp_app.E001", "OAUTH_ISSUER"),
        (mcp(OAUTH_ISSUER="https://id.example"), "mcp_app.W023", "id.example"),
        (
            mcp(AUTH="external", OAUTH_ISSUER="https://id.example", OAUTH_AUDIENCE=["a"], PUBLIC_URL=""),
            "mcp_app.W024",
            "where to get a token",
        ),
        (mcp(AUTH="required", API_KEYS=False, OAUTH=False), "mcp_app.W027", "API_KEYS is off"),
        (
            mcp(AUTH="external", OAUTH_ISSUER="https://id.example", OAUTH_CREATE_USERS=False),
            "mcp_app.W026",
            "No new user",
        ),
        (
            {**mcp(LOGIN_ISSUER="https://id.example", LOGIN_CLIENT_ID="a"), "SOCIALACCOUNT_ADAPTER": "other"},
            "mcp_app.E028",
            "id.example",
        ),
        (mcp(LOGIN_ISSUER="https://id.example"), "mcp_app.E001", "LOGIN_CLIENT_ID"),
        (mcp(SECOND_FACTOR="sometimes"), "mcp_app.E001", "SECOND_FACTOR"),
        (mcp(REDIS_URL="redis://a:1,b:2/0"), "mcp_app.E043", "several addresses"),
        ({**mcp(SECOND_FACTOR="staff"), "MFA_ADAPTER": "other"}, "mcp_app.E030", "SECOND_FACTOR"),
        ({**mcp(SECOND_FACTOR="staff"), "AUTHENTICATION_BACKENDS": []}, "mcp_app.E030", "SECOND_FACTOR"),
        ({**mcp(SECOND_FACTOR="everybody"), "MIDDLEWARE": []}, "mcp_app.E030", "SECOND_FACTOR"),
        (
            mcp(LOGIN_ISSUER="https://id.example", LOGIN_CLIENT_ID="a", LOGIN_SCOPES=["profile"]),
            "mcp_app.E001",
            "openid",
        ),
        ({"ASGI_APPLICATION": None}, "mcp_app.W006", "WSGI"),
        ({"ASGI_APPLICATION": "acme.asgi.application"}, "mcp_app.E015", "acme"),
        ({"MEDIA_ROOT": "", **mcp(UPLOAD_DIRECTORY="")}, "mcp_app.W007", "working directory"),
        (mcp(UPLOAD_DIRECTORY="/proc/1/nowhere"), "mcp_app.E008", "/proc/1/nowhere"),
        (mcp(RESOURCE_DIRECTORIES=["/no/such/folder"]), "mcp_app.W009", "/no/such/folder"),
        ({"TEMPLATES": [{**settings.TEMPLATES[0], "APP_DIRS": False}]}, "mcp_app.E010", "templates"),
        (
            {"STATICFILES_FINDERS": ["django.contrib.staticfiles.finders.FileSystemFinder"]},
            "mcp_app.W011",
            "style sheet",
        ),
    ],
)
def test_invalid_setting_is_reported_with_hint(values: dict[str, Any], expected: str, words: str) -> None:
    from django.contrib.staticfiles import finders

    with override_settings(**values):
        finders.get_finder.cache_clear()
        messages = found()
    finders.get_finder.cache_clear()
    assert words in messages[expected].msg
    assert messages[expected].hint


@pytest.mark.parametrize(
    ("permission", "reported"),
    [("mcp_app.view_tool", False), ("mcp_app.run_doctor", False), ("mcp_app.view_tol", True), ("", False)],
)
def test_undefined_permission_in_code_is_reported(permission: str, reported: bool) -> None:
    with registry.isolated():

        @tool(permission=permission)
        def guarded() -> str:
            """A tool."""
            return ""

        assert ("mcp_app.W012" in found()) is reported


def test_background_tools_without_redis_are_reported_in_deployment_check() -> None:
    with registry.isolated(), override_settings(**mcp(REDIS_URL="")):

        @tool(background=True)
        def slow() -> str:
            """A tool."""
            return ""

        assert "mcp_app.W013" not in found()
        assert "slow" in found(include_deployment_checks=True)["mcp_app.W013"].msg
    with registry.isolated():
        assert "mcp_app.W013" not in found(include_deployment_checks=True)


@pytest.mark.postgres
@pytest.mark.django_db
@pytest.mark.parametrize(("permission", "reported"), [("mcp_app.view_tool", False), ("shop.gone", True)])
def test_missing_permission_of_row_is_reported(permission: str, reported: bool) -> None:
    Tool.objects.create(name="x\x1b\u202e", source=StoredSource.CODE, permission=permission)
    assert found() == {}
    messages = found(databases=["default"])
    assert ("mcp_app.W014" in messages) is reported
    if reported:
        assert "shop.gone" in messages["mcp_app.W014"].msg
        assert messages["mcp_app.W014"].msg.isprintable()


@pytest.mark.parametrize(("above", "hidden"), [(False, False), (True, True)])
def test_catch_all_above_library_urls_is_reported(
    monkeypatch: pytest.MonkeyPatch, above: bool, hidden: bool
) -> None:
    catch_all, ours = re_path(r"^(.*)$", serve, name="cms_page"), path("ops/", include("mcp_app.urls"))
    urls = ModuleType("cms_urls")
    urls.urlpatterns = [catch_all, ours] if above else [ours, catch_all]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cms_urls", urls)
    with override_settings(ROOT_URLCONF="cms_urls"):
        assert ("mcp_app.W039" in found()) is hidden


def test_asgi_application_without_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found() == {}
    monkeypatch.delitem(sys.modules, "mcp_app.transports.application")
    with override_settings(ASGI_APPLICATION="django.core.asgi.get_asgi_application"):
        assert "get_application" in (found()["mcp_app.W016"].hint or "")


PROJECT = """
import sys, threading
import django
from django.conf import settings
from celery import Celery

settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="mcp_app.urls", DATABASES={},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "mcp_app"],
    MCP={"REDIS_URL": "redis://127.0.0.1:1/0", "ALLOWED_HOSTS": ["x"]},
)
exec(sys.argv[1])
django.setup()
from django.core.checks import run_checks
from mcp_app.execution.background import celery
print(*sorted(found.id for found in run_checks() if found.id.startswith("mcp_app.W01")))
"""
ELSEWHERE = "thread = threading.Thread(target=make); thread.start(); thread.join()"


@pytest.mark.process
@pytest.mark.parametrize(
    ("celery", "reported"),
    [
        ("", "mcp_app.W017"),
        ("app = Celery('acme')", "mcp_app.W018"),
        ("app = Celery('acme'); app.autodiscover_tasks(['mcp_app'])", ""),
        # Celery recreates its own `current_app` in every thread that did not create the application.
        (f"kept = []\ndef make(): kept.append(Celery('acme', include=['mcp_app.tasks']))\n{ELSEWHERE}", ""),
    ],
)
def test_celery_app_unable_to_run_calls_is_reported(celery: str, reported: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROJECT, celery], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == reported


@pytest.mark.postgres
@pytest.mark.django_db
def test_code_entries_missing_in_database_are_named() -> None:
    with registry.isolated():

        @tool
        def forgotten() -> str:
            """A tool."""
            return ""

        assert "forgotten" in found(databases=["default"])["mcp_app.W020"].msg
        mirror()
        assert found(databases=["default"]) == {}


@pytest.mark.django_db
def test_partially_applied_squashed_migrations_are_reported() -> None:
    applied = MigrationRecorder.Migration.objects.filter(app="mcp_app")
    assert "mcp_app.E033" not in found(databases=["default"])
    applied.filter(name="0032_indexes_of_calls").delete()
    assert "0017_squashed_0032" in found(databases=["default"])["mcp_app.E033"].msg
    with pytest.raises(CommandError, match=r"docs/operate/upgrade\.md"):
        prepare()
    # As in a database older than all squashed migrations.
    applied.exclude(name="0001_initial").delete()
    assert "mcp_app.E033" not in found(databases=["default"])


@pytest.mark.postgres
@pytest.mark.django_db
def test_email_notifications_without_mail_server_are_counted(django_user_model: Any) -> None:
    person = django_user_model.objects.create_user("ada")
    choose(user=person, way="email", kinds=["approvals"])
    assert "notifications: 1." in found(databases=["default"])["mcp_app.W032"].msg
    with override_settings(EMAIL_HOST="mail.example.com"):
        assert "mcp_app.W032" not in found(databases=["default"])


def test_optional_part_names_extra_for_missing_library() -> None:
    part = Part("Singing", "choir", "mcp_app", ("json", "no_such_library"))
    assert (part.is_there(), part.missing()) == (False, ("no_such_library",))
    assert part.remedy() == "pip install 'django-mcp-app[choir]'"


def test_missing_token_library_is_reported_for_external_auth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_parts, "PROVIDER", Part("AUTH", "oauth", "mcp_app", ("no_such_library",)))
    values = mcp(AUTH="external", OAUTH_ISSUER="https://id.example", OAUTH_AUDIENCE=["api://mcp"])
    with override_settings(**values):
        assert "django-mcp-app[oauth]" in (found()["mcp_app.E022"].hint or "")


def test_every_check_has_unique_documented_id() -> None:
    ids = [
        name
        for path in SOURCE.glob("*.py")
        for name in re.findall(r'"(mcp_app\.[EWI]\d{3})"', path.read_text())
    ]
    numbers = [name[-3:] for name in ids]
    assert len(set(numbers)) == len(numbers)
    assert sorted(re.findall(r"`(mcp_app\.[EWI]\d{3})`", DOCUMENT.read_text())) == sorted(ids)
