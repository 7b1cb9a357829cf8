"""Names of callers as links, their other pages, and the button that revokes a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import revoking
from mcp_app.auth.api_keys import key_states
from mcp_app.auth.principal_names import BETWEEN, CallerName, caller_names
from mcp_app.interface.links import (
    add_limit_page,
    caller_pages,
    connections_page,
    figures_page,
    keys_page,
    messages_page,
    sessions_page,
)
from mcp_app.interface.text import visible
from mcp_app.message_log.search.language import term_of
from mcp_app.models import ApiKey
from mcp_app.protocol.principal_key import caller_ids

# The consequence of revoking a key, in the confirmation on every page that has the button.
CLIENTS_END: Final = "Clients that use it are disconnected at once."
ADD_LIMIT: Final = "Add limit"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller on the page of a session, message or call.

    ``pages`` are titles and addresses of pages about the caller. ``revoking`` describes the button that
    revokes its API key, or is None if there is no active key or the user may not revoke it.
    """

    name: SafeString
    principal: str
    pages: list[tuple[str, str]]
    revoking: dict[str, str] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def is_named(self) -> bool:
        """True if the name is not the principal itself."""
        return self.name != visible(self.principal)


def caller_of(user: Any, principal: str) -> Caller:
    """Return the caller with this principal, for a page that ``user`` reads."""
    name = caller_names([principal])[principal]
    return Caller(
        linked_name(user, principal, name), principal, pages_of(user, principal), _revoking(user, principal)
    )


def pages_of(user: Any, principal: str) -> list[tuple[str, str]]:
    """Return titles and addresses of the lists that show what one principal did."""
    found = (
        ("Log", messages_page(user, principal=principal)),
        ("Figures", figures_page(user, principal=principal)),
        ("Sessions", sessions_page(user, q=principal)),
    )
    return [(title, url) for title, url in found if principal and url]


def pages_to_limit(user: Any, name: str, **filled: str) -> list[tuple[str, str]]:
    """Return the title and address of the form that limits a caller, if the user may add limits."""
    url = add_limit_page(user, name, **filled)
    return [(ADD_LIMIT, url)] if url else []


def pages_of_user(user: Any, name: str) -> list[tuple[str, str]]:
    """Return titles and addresses of the lists of a user's traffic and credentials, by login name."""
    found = (
        ("Log", messages_page(user, q=term_of("user", name))),
        ("Sessions", sessions_page(user, q=name)),
        ("API keys", keys_page(user, q=name)),
        ("OAuth connections", connections_page(user, q=name)),
        (ADD_LIMIT, add_limit_page(user, name, who="user", who_value=name)),
    )
    return [(title, url) for title, url in found if url]


def linked_name(user: Any, principal: str, name: CallerName) -> SafeString:
    """Return the display name of a principal as HTML, with links to the pages that ``user`` may open."""
    if not name.is_known:
        return visible(name)
    pages = caller_pages(user, principal)
    owner = linked(name.user, pages.user)
    shown = format_html("{} as {}", visible(name.actor), owner) if name.actor else owner
    if name.credential:
        credential = linked(name.credential, pages.api_key or pages.client)
        shown = format_html("{}{}{}", shown, BETWEEN, credential)
    return format_html("{} (test bench)", shown) if name.is_bench else shown


def linked(text: str, url: str | None) -> SafeString:
    """Return untrusted text as HTML, as a link if there is an address."""
    return format_html('<a class="mcp-link" href="{}">{}</a>', url, visible(text)) if url else visible(text)


def revoke_button() -> dict[str, str]:
    """Return the button that revokes an API key, with its confirmation."""
    return revoking("admin:mcp_app_apikey_revoke", "Revoke", "key", CLIENTS_END)


def _revoking(user: Any, principal: str) -> dict[str, str] | None:
    key = caller_ids(principal).api_key
    if not key or not user.has_perm("mcp_app.change_apikey"):
        return None
    if not ApiKey.objects.filter(key_states()["active"], pk=key).exists():
        return None
    return {**revoke_button(), "url": reverse("admin:mcp_app_apikey_revoke", args=[key])}
