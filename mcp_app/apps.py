"""The app configuration. It registers entries, checks and signals once Django has loaded every app."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_migrate, post_save, pre_migrate
from django.utils.module_loading import autodiscover_modules

if TYPE_CHECKING:
    from django.db.models import Q

    from mcp_app.auth.ended import EndedWork


class McpAppConfig(AppConfig):
    """The configuration of the Model Context Protocol app."""

    name = "mcp_app"
    label = "mcp_app"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import the module ``mcp`` of every app.

        If a definition in it is wrong, raise an error that names the function.
        """
        from mcp_app.checks import configuration, rows, schemas  # noqa: F401 - importing registers
        from mcp_app.conf import forget, projects_redis

        projects_redis()
        autodiscover_modules("mcp")
        # Tests create their database later, so discard the data that was read before.
        forget()
        pre_migrate.connect(forget, sender=self, dispatch_uid="mcp_app.forget")
        post_migrate.connect(_prepare, sender=self, dispatch_uid="mcp_app.prepare")
        if apps.is_installed("mcp_app.oauth"):
            post_migrate.connect(
                _complete_roles, apps.get_app_config("mcp_oauth"), dispatch_uid="mcp_app.roles"
            )
        post_save.connect(_rename, sender="auth.Group", dispatch_uid="mcp_app.rename")
        _listen_for_ends()


def _listen_for_ends() -> None:
    """Connect signals that end a credential's work with the credential, even for changes in a shell."""
    from mcp_app.auth import ended

    ended.register(_end_work)
    if (groups := getattr(get_user_model(), "groups", None)) is not None:
        m2m_changed.connect(_groups_changed, sender=groups.through, dispatch_uid="mcp_app.groups")
        post_delete.connect(_group_deleted, sender="auth.Group", dispatch_uid="mcp_app.group")
    for signal in (post_save, post_delete):
        signal.connect(_user_changed, sender=settings.AUTH_USER_MODEL, dispatch_uid="mcp_app.user")
        signal.connect(_key_changed, sender="mcp_app.ApiKey", dispatch_uid="mcp_app.key")


def _end_work(which: Q, principal: str, actor: Any, reason: str) -> EndedWork:
    from mcp_app.execution.services import end_work_of  # Imported here, because most commands never end work.

    return end_work_of(which, principal, actor, reason)


def _user_changed(instance: Any, signal: Any, **facts: Any) -> None:
    from mcp_app.auth import ended

    fields = facts.get("update_fields")
    if signal is post_save:
        unchanged = fields is not None and "is_active" not in fields
        if facts.get("created") or facts.get("raw") or unchanged or instance.is_active:
            return
    ended.end_work(ended.of_person(instance.pk))


def _groups_changed(action: str, instance: Any, pk_set: Any, reverse: bool, **facts: Any) -> None:
    """Announce changed memberships, so that open streams and cached permissions end at once (S5)."""
    from mcp_app.streams.blocking.announce import announce

    if not action.startswith("post_"):
        return
    # The members of a cleared group are unknown by now, so every credential is read again.
    users = (list(pk_set) if pk_set is not None else [None]) if reverse else [instance.pk]
    for user in users:
        payload = {} if user is None else {"user": user}
        transaction.on_commit(partial(announce, "credentials", payload))


def _group_deleted(**_: Any) -> None:
    """Announce that every credential is read again. Django sends no signal about the lost memberships."""
    from mcp_app.streams.blocking.announce import announce

    transaction.on_commit(partial(announce, "credentials", {}))


def _key_changed(instance: Any, signal: Any, **facts: Any) -> None:
    from mcp_app.auth import ended

    if signal is post_save and (facts.get("created") or facts.get("raw") or instance.revoked_at is None):
        return
    ended.key_ended(instance, "deleted" if signal is post_delete else "revoked")


def _rename(instance: Any, created: bool, raw: bool, **_: Any) -> None:
    from mcp_app.auth.membership import rename_memberships

    if not created and not raw:
        rename_memberships(instance)


def _prepare(**facts: Any) -> None:
    from mcp_app.prepare import after_migrate

    after_migrate(**facts)


def _complete_roles(**facts: Any) -> None:
    from mcp_app.prepare import roles_after_migrate

    roles_after_migrate(**facts)
