"""Checks of settings and code. Each check has an id and a hint, and docs/checks.md lists it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.staticfiles import finders
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, router
from django.template.exceptions import TemplateDoesNotExist
from django.template.loader import get_template
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.utils.module_loading import import_string

from mcp_app import conf, optional_parts
from mcp_app.auth.own_addresses import company_login_lacks, offers_oauth, second_factor_lacks
from mcp_app.auth.public_paths import former_in
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.sources.content.static_content import upload_directory
from mcp_app.streams.connections.client import address_fault

if TYPE_CHECKING:
    from mcp_app.doctor import Installation

TAG: Final = "mcp"
STYLE, TEMPLATE = "mcp_app/admin.css", "mcp_admin/page.html"


@checks.register(TAG)
def settings_are_usable(**_: Any) -> list[CheckMessage]:
    """Check the settings of this app. The doctor's checks of settings are included."""
    # Imported here, because only a process that runs checks needs the doctor.
    from mcp_app.doctor import Installation

    try:
        installation = Installation.configured()
    except (ImproperlyConfigured, ValueError) as wrong:
        hint = "See docs/settings.md for the keys of MCP, their types and their defaults."
        return [Error(str(wrong), hint=hint, id="mcp_app.E001")]
    found = [*_judged(installation), *_redis(), *_routers(), *_hosts(), *_credentials(), *_asgi()]
    found += [*_folders(), *_former_paths(), *_commands()]
    return found + list(_admin()) if apps.is_installed("django.contrib.admin") else found


def _judged(installation: Installation) -> Iterator[CheckMessage]:
    """Yield the doctor's findings about settings as check messages."""
    from mcp_app.doctor import Level, settings

    reported = (
        (settings.loopback, Error, "mcp_app.E002"),
        (settings.debug, Warning, "mcp_app.W003"),
        (settings.broker, Warning, "mcp_app.W004"),
    )
    for check, kind, name in reported:
        for finding in check(installation):
            if finding.level != Level.OK:
                yield kind(f"{finding.text}.", hint=finding.remedy, id=name)


def _former_paths() -> Iterator[CheckMessage]:
    for setting, former, path in former_in(django_settings):
        yield Warning(
            f"{setting} names {former!r}, a path that stops working in the next release.",
            hint=f"Use {path!r}.",
            id="mcp_app.W044",
        )


def _commands() -> Iterator[CheckMessage]:
    # Kubernetes sets this variable in every pod.
    if conf.get().upstream_commands and "KUBERNETES_SERVICE_HOST" in os.environ:
        yield Error(
            "UPSTREAM_COMMANDS has commands, but pods cannot share the processes of a command.",
            hint="Run each command in its own pod behind an HTTP endpoint, and add that URL as a server.",
            id="mcp_app.E047",
        )
    for command in conf.get().upstream_commands.values():
        for argument in command.secret_arguments():
            yield Warning(
                f"The argument {argument} of the upstream command {command.name} seems to be a secret.",
                hint="Pass it as a variable in `env`, because all users of the machine can read arguments.",
                id="mcp_app.W045",
            )


def _routers() -> Iterator[CheckMessage]:
    """Check that database routers place all models of this app in ``default``.

    The raw SQL statements of this app use that database.
    """
    ours = [model for model in apps.get_models() if model.__module__.startswith("mcp_app.")]
    elsewhere = {
        alias
        for model in ours
        for alias in (router.db_for_read(model), router.db_for_write(model))
        if alias != DEFAULT_DB_ALIAS
    }
    if elsewhere or not all(router.allow_migrate_model(DEFAULT_DB_ALIAS, model) for model in ours):
        labels = " and ".join(sorted({repr(model._meta.app_label) for model in ours}))
        where = " and ".join(map(repr, sorted(elsewhere))) or "another database"
        yield Error(
            f"DATABASE_ROUTERS place tables of this app in {where}: "
            f"reads and writes must use {DEFAULT_DB_ALIAS!r}.",
            hint=f"Have your routers return None, or {DEFAULT_DB_ALIAS!r}, for the app labels {labels}; "
            "allow_migrate must allow them there. A read replica lags too far behind.",
            id="mcp_app.E031",
        )


def _redis() -> Iterator[CheckMessage]:
    url = conf.get().redis_url
    if url and (fault := address_fault(url)):
        yield Error(
            f"REDIS_URL {fault}.",
            hint="Set MCP['REDIS_URL'] (REDIS_URL) to the address of one Redis, such as redis://host:6379/0.",
            id="mcp_app.E043",
        )


def _hosts() -> Iterator[CheckMessage]:
    settings = conf.get()
    if not settings.loopback and not settings.allowed_hosts:
        yield Warning(
            "No host is allowed for /mcp: every request is answered 421.",
            hint="Set MCP['ALLOWED_HOSTS'] to the names clients use, or MCP['LOOPBACK'] to True locally.",
            id="mcp_app.W005",
        )


def _credentials() -> Iterator[CheckMessage]:
    """Check that clients can authenticate, and that a configured issuer is used."""
    settings = conf.get()
    if settings.auth == "external":
        yield from _provider(settings)
    elif settings.oauth_issuer:
        yield Warning(
            f"Tokens of {settings.oauth_issuer} are not accepted: AUTH is {settings.auth!r}.",
            hint="Set MCP['AUTH'] (MCP_AUTH) to 'external', or remove OAUTH_ISSUER.",
            id="mcp_app.W023",
        )
    if settings.login_issuer:
        yield from _company_login(settings)
    if settings.second_factor != "optional" and (lacks := second_factor_lacks()):
        yield Error("SECOND_FACTOR is required, but users cannot set one up.", hint=lacks, id="mcp_app.E030")
    if settings.auth == "required" and not settings.api_keys and not offers_oauth():
        yield Warning(
            "No client can connect: API_KEYS is off, and no login is offered.",
            hint="Set MCP['API_KEYS'] to True, or offer a login (MCP['OAUTH'] and PUBLIC_URL, or AUTH).",
            id="mcp_app.W027",
        )


def _provider(settings: conf.Settings) -> Iterator[CheckMessage]:
    if optional_parts.PROVIDER.missing():
        yield Error(
            "AUTH is 'external', and the library that verifies tokens is not installed.",
            hint=optional_parts.PROVIDER.remedy(),
            id="mcp_app.E022",
        )
    if not settings.public_url:
        yield Warning(
            "Clients cannot discover where to get a token: the address of this server is unknown.",
            hint="Set MCP['PUBLIC_URL'] to the address that clients use.",
            id="mcp_app.W024",
        )
    if not (settings.oauth_create_users or settings.oauth_link_users):
        yield Warning(
            "No new user can sign in with a token: users are neither created nor linked.",
            hint="Set MCP['OAUTH_CREATE_USERS'] or MCP['OAUTH_LINK_USERS'] to True.",
            id="mcp_app.W026",
        )


def _company_login(settings: conf.Settings) -> Iterator[CheckMessage]:
    if lacks := company_login_lacks():
        yield Error(
            f"Users cannot log in through LOGIN_ISSUER, {settings.login_issuer}.",
            hint=lacks,
            id="mcp_app.E028",
        )
    elif not offers_oauth():
        yield Warning(
            f"Users cannot log in through {settings.login_issuer}: no login is offered.",
            hint="Offer one (AUTH='required', MCP['OAUTH'] and PUBLIC_URL), or remove LOGIN_ISSUER.",
            id="mcp_app.W029",
        )


def _asgi() -> Iterator[CheckMessage]:
    if not getattr(django_settings, "ASGI_APPLICATION", None):
        yield Warning(
            "ASGI_APPLICATION is not set: /mcp streams its responses and is not served under WSGI.",
            hint="Set it to the application in your asgi.py, created by mcp_app.asgi.get_application().",
            id="mcp_app.W006",
        )


@checks.register(TAG)
def endpoint_is_routed(**_: Any) -> list[CheckMessage]:
    """Check that the project's ASGI application serves ``/mcp``."""
    named = getattr(django_settings, "ASGI_APPLICATION", None)
    if not named:
        return []  # W006 reports it.
    try:
        import_string(named)
    except ImportError as error:
        text, hint = f"ASGI_APPLICATION cannot be imported: {error}.", "Correct the setting, or the module."
        return [Error(text, hint=hint, id="mcp_app.E015")]
    if "mcp_app.transports.application" in sys.modules:
        return []
    hint = "In that module: application = mcp_app.asgi.get_application(get_asgi_application())."
    return [Warning(f"{named} does not serve /mcp.", hint=hint, id="mcp_app.W016")]


@checks.register(TAG)
def jobs_reach_a_worker(**_: Any) -> list[CheckMessage]:
    """Check that the project's Celery application includes this app's tasks, if Redis is configured."""
    from mcp_app.execution.background import celery

    try:
        has_workers = bool(conf.get().redis_url)
    except ImproperlyConfigured:
        return []  # E001 reports it.
    if not has_workers:
        return []
    if not celery.is_found():
        text = "No Celery application found in this project: background tools have no worker."
        hint = (
            "Create one in <project>/celery.py and import it in <project>/__init__.py, as in Celery's guide."
        )
        return [Warning(text, hint=hint, id="mcp_app.W017")]
    if celery.knows_our_tasks():
        return []
    text = f"The Celery application {celery.application().main!r} does not know the tasks of mcp_app."
    hint = "Call its autodiscover_tasks() without arguments, or with a list that contains 'mcp_app'."
    return [Warning(text, hint=hint, id="mcp_app.W018")]


@checks.register(TAG)
def pages_are_reached(**_: Any) -> list[CheckMessage]:
    """Warn if an earlier URL pattern of the project matches the address of this app's pages."""
    if not getattr(django_settings, "ROOT_URLCONF", ""):
        return []
    try:
        address = reverse("mcp_connect")
        found = resolve(address)
    except (NoReverseMatch, Resolver404, ImproperlyConfigured):
        return []  # The pages are optional; Django's own checks report a broken ROOT_URLCONF.
    if found.url_name == "mcp_connect":
        return []
    text = f"{address} is routed to {found.view_name or found._func_path}, not to mcp_app."
    hint = 'In urls.py, put include("mcp_app.urls") above patterns that match every path.'
    return [Warning(text, hint=hint, id="mcp_app.W039")]


@checks.register(TAG)
def exposed_views_ask_for_something(**_: Any) -> list[CheckMessage]:
    """Warn about exposed viewsets that require no permission. Any caller may call their tools."""
    from mcp_app.catalogue.exposure.viewsets.offering import open_tools

    if not (found := open_tools()):
        return []
    text = f"Every caller may call exposed actions of viewsets: {', '.join(found)}."
    hint = "Give the views permission_classes, or expose.viewset a permission. Silence this if intended."
    return [Warning(text, hint=hint, id="mcp_app.W025")]


@checks.register(TAG)
def parts_are_complete(**_: Any) -> list[CheckMessage]:
    """Report optional parts that the project seems to use although a library is missing.

    Libraries are imported only where they are used, so everything else works without them.
    """
    wanted = (optional_parts.API, optional_parts.CONSOLE) if "mcp_app.urls" in sys.modules else ()
    return [
        Info(
            f"{part.name} is not served: {', '.join(part.missing())} is not installed.",
            hint=part.remedy(),
            id="mcp_app.I019",
        )
        for part in (*wanted, optional_parts.WEB_TOOLS)
        if apps.is_installed(part.app) and part.missing()
    ]


def _folders() -> Iterator[CheckMessage]:
    if not (uploads := upload_directory()):
        yield Warning(
            "No folder is configured for uploads: they are stored in the working directory.",
            hint="Set MEDIA_ROOT or MCP['UPLOAD_DIRECTORY'].",
            id="mcp_app.W007",
        )
    elif not _may_write(Path(uploads)):
        yield Error(
            f"Uploads cannot be written to {uploads!r}.",
            hint="Make it writable for this user, or change MEDIA_ROOT or MCP['UPLOAD_DIRECTORY'].",
            id="mcp_app.E008",
        )
    for folder in conf.get().resource_directories:
        if not os.access(folder, os.R_OK | os.X_OK) or not Path(folder).is_dir():
            yield Warning(
                f"The folder {folder!r} in MCP['RESOURCE_DIRECTORIES'] cannot be read.",
                hint="Make the folder readable for this user, or remove it.",
                id="mcp_app.W009",
            )


def _may_write(folder: Path) -> bool:
    """Return True if a file can be created in ``folder``.

    If the folder does not exist, its first existing parent is tested, because the first upload creates the
    folder.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _admin() -> Iterator[CheckMessage]:
    try:
        get_template(TEMPLATE)
    except TemplateDoesNotExist:
        yield Error(
            "The templates of the admin pages were not found.",
            hint="Set APP_DIRS of TEMPLATES to True, or add the app_directories loader.",
            id="mcp_app.E010",
        )
    if not apps.is_installed("django.contrib.staticfiles") or finders.find(STYLE) is None:
        yield Warning(
            "The style sheet of the admin pages was not found.",
            hint="Add django.contrib.staticfiles to INSTALLED_APPS, and AppDirectoriesFinder to its finders.",
            id="mcp_app.W011",
        )


@checks.register(TAG)
def permissions_of_code_exist(**_: Any) -> list[CheckMessage]:
    """Warn about permissions in code that no model defines. They cannot be granted to anyone."""
    known = {
        f"{model._meta.app_label}.{name}" for model in apps.get_models() for name in _codenames(model._meta)
    }
    definitions: list[Any] = [
        definition
        for kind in (registry.tools, registry.prompts, registry.resources, registry.templates)
        for definition in kind.values()
    ]
    definitions += [
        method for extension in registry.extensions.values() for method in extension.methods.values()
    ]
    return [
        Warning(
            f"{definition.code_path} requires {definition.permission!r}, a permission that no model defines.",
            hint="Correct its name, or define it in Meta.permissions of a model.",
            id="mcp_app.W012",
        )
        for definition in definitions
        if definition.permission and definition.permission not in known
    ]


def _codenames(meta: Any) -> Iterator[str]:
    yield from (f"{action}_{meta.model_name}" for action in meta.default_permissions)
    yield from (codename for codename, _ in meta.permissions)


@checks.register(TAG, deploy=True)
def background_tools_have_a_broker(**_: Any) -> list[CheckMessage]:
    """Warn about background tools if there is no Redis. They run in a web process and end with it."""
    names = sorted(tool.name for tool in registry.tools.values() if tool.background)
    try:
        missing = not conf.get().redis_url
    except ImproperlyConfigured:
        return []  # E001 reports it.
    if not (missing and names):
        return []
    text = f"Without Redis, background tools run in the web process and end with it: {', '.join(names)}."
    return [Warning(text, hint="Set MCP['REDIS_URL'] (REDIS_URL), and run a worker.", id="mcp_app.W013")]
