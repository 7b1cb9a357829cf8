"""The admin of this deployment with the skin Unfold: title, sidebar, icons, and a badge for approvals."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import unfold
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.text import format_lazy

PACKAGE = Path(unfold.__path__[0])
# The query of a list that opens live.
LIVE = "?live=1"
# Tab bars, each with the pages of the lists that share it.
TAB_BARS: list[dict[str, Any]] = []


def _link(title: str, icon: str, model: str, app: str = "mcp_app", seen_with: str = "") -> dict[str, Any]:
    """Return a sidebar entry for users who may view or change the model, or the model ``seen_with``."""

    def permitted(request: HttpRequest) -> bool:
        permissions = [f"{app}.{action}_{seen_with or model}" for action in ("view", "change")]
        return any(map(request.user.has_perm, permissions))

    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{app}_{model}_changelist"),
        "permission": permitted,
        "model": f"{app}.{model}",
    }


def _at(request: HttpRequest, *pages: str) -> bool:
    """Return True if one of these pages is shown.

    The skin itself would only compare the beginnings of URLs.
    """
    return request.resolver_match is not None and request.resolver_match.view_name in pages


def _page(title: str, icon: str, *pages: str) -> dict[str, Any]:
    """Return a sidebar entry for a page of the message log. It is also active on the page's subpages."""
    names = [f"admin:mcp_app_message_{page}" for page in pages]
    return {
        **_link(title, icon, "message"),
        "link": reverse_lazy(names[0]),
        "active": lambda request: _at(request, *names),
    }


def _connect_is_served(request: HttpRequest) -> bool:
    from mcp_app import conf

    return conf.get().connect_page


class _Waiting:
    """The number of calls that wait for approval. The template calls this object, and hides 0."""

    def __init__(self) -> None:
        self._counted: int | None = None

    def __call__(self) -> int:
        """Return the number.

        The skin copies entries for each page and calls twice, so it is counted once per copy.
        """
        from mcp_app.admin.calls.approval import waiting_count

        if self._counted is None:
            self._counted = waiting_count()
        return self._counted


def _drafts() -> dict[str, Any]:
    """Return the sidebar entry for drafts, for users who may view any kind of catalogue entry."""
    kinds = ("tool", "prompt", "resource", "resourcetemplate")
    seen = [_link("", "", kind)["permission"] for kind in kinds]
    line = _link("Drafts", "edit_note", "draft")
    return {**line, "permission": lambda request: any(permitted(request) for permitted in seen)}


def _live(title: str, icon: str, model: str, *pages: str) -> dict[str, Any]:
    """Return a sidebar entry for a list that opens live. It is also active on these pages."""
    names = [f"admin:mcp_app_{model}_{page}" for page in ("changelist", "change", *pages)]
    return {
        **_link(title, icon, model),
        "link": format_lazy("{}{}", reverse_lazy(names[0]), LIVE),
        "active": lambda request: _at(request, *names, f"mcp_console:{model}"),
    }


def _tabbed(*lines: dict[str, Any]) -> dict[str, Any]:
    """Return one sidebar entry for lists that share tabs. It leads to the first that the user may view."""
    models = [line["model"] for line in lines]
    pages = [f"admin:{model.replace('.', '_')}_changelist" for model in models]
    TAB_BARS.append({"models": models, "items": list(lines), "pages": pages})

    def seen(request: HttpRequest) -> list[dict[str, Any]]:
        return [line for line in lines if line["permission"](request)]

    return {
        **lines[0],
        "lines": lines,
        "link": lambda request: next((line["link"] for line in seen(request)), ""),
        "permission": lambda request: bool(seen(request)),
        "active": lambda request: any(request.path.startswith(str(line["link"])) for line in lines),
    }


def lines_of(item: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the lists behind a sidebar entry, of which there are several if they share tabs."""
    return item.get("lines", [item])  # type: ignore[no-any-return]


def is_permitted(line: dict[str, Any], request: HttpRequest) -> bool:
    """Return True if the user may open a sidebar entry, or a list behind it."""
    return "permission" not in line or bool(line["permission"](request))


def _tabs(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the tab bar of the list that is shown, if it has one.

    The skin compares each tab with each sidebar entry, which takes a quarter of the time of a small page.
    """
    return [bar for bar in TAB_BARS if _at(request, *bar["pages"])]


def _account(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the links of the account menu. The skin shows its own link only if this list is empty."""
    from mcp_app.auth.own_addresses import second_factor_lacks

    password = {"title": "Change password", "link": reverse_lazy("admin:password_change")}
    factor = {"title": "Second factor", "link": reverse_lazy("mcp_oauth:second_factor")}
    has_password = request.user.is_authenticated and request.user.has_usable_password()
    connections = {"title": "My connections", "link": reverse_lazy("mcp_connections")}
    return [
        *([password] if has_password else []),
        *([] if second_factor_lacks() else [factor]),
        connections,
    ]


def _brand(_: HttpRequest) -> str:
    from mcp_app import conf

    return conf.get().server.label


def _anything(request: HttpRequest) -> str:
    from mcp_app.admin.base import anything_script

    return anything_script()


def _zone(_: HttpRequest) -> str:
    from mcp_app.auth.time_zone import zone_script

    return zone_script()


def _notices(_: HttpRequest) -> str:
    from mcp_app.admin.base import notices_script

    return notices_script()


def _adds(request: HttpRequest, model: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the addresses that add objects of a kind, with their words. Entries have one for each source."""
    from django.contrib import admin

    kind = model["model"]
    pages = admin.site._registry.get(kind)
    if (choice := getattr(pages, "add_choice", None)) is None:
        return [(model["add_url"], str(kind._meta.verbose_name))]
    return [(each["url"], each["texts"].offered) for each in choice(request)]


def beside_the_sidebar(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Reduce the first page to the models that the sidebar does not link, and to links for adding objects."""
    linked = {
        str(line["link"]).removesuffix(LIVE)
        for group in context["sidebar_navigation"]
        for item in group["items"]
        for line in lines_of(item)
        if is_permitted(line, request)
    }
    beyond, added = [], []
    for app in context["app_list"]:
        others = [model for model in app["models"] if model["admin_url"] not in linked]
        added += [model for model in app["models"] if model["add_url"] and model not in others]
        if others:
            beyond.append({**app, "models": others})
    named = dict(add for model in added for add in _adds(request, model))
    adds = [{"name": name, "url": url} for url, name in named.items()]
    from mcp_app.admin.audit import recent_actions

    user = getattr(request, "user", None)
    return {
        **context,
        "recent_actions": recent_actions(user) if user is not None and user.is_authenticated else [],
        "app_list": beyond,
        "adds": adds,
        "sidebar_has_all": bool(context["app_list"]) and not beyond,
    }


UNFOLD: dict[str, Any] = {
    "DASHBOARD_CALLBACK": "mcpsite.unfold.beside_the_sidebar",
    "ACCOUNT": {"navigation": _account},
    "SITE_TITLE": _brand,
    "SITE_HEADER": _brand,
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda _: static("mcp_app/icon.svg")}],
    # Also on the skin's own pages, where a long word must not make the page wider than the screen.
    "STYLES": [lambda _: static("mcp_app/admin.css")],
    "SCRIPTS": [
        *(_anything, _zone, _notices),
        *(lambda _, name=name: static(f"mcpsite/{name}.js") for name in ("icons", "focus", "badge")),
    ],
    "SITE_URL": None,
    "TABS": _tabs,
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "6px",
    "COLORS": {
        "primary": {
            "50": "#f0fdfa",
            "100": "#ccfbf1",
            "200": "#99f6e4",
            "300": "#5eead4",
            "400": "#2dd4bf",
            "500": "#14b8a6",
            # This color is used for text on white. A lighter color has a contrast below 4.5 (WCAG 1.4.3).
            "600": "#0d7d73",
            "700": "#0f766e",
            "800": "#115e59",
            "900": "#134e4a",
            "950": "#042f2e",
        }
    },
    "SIDEBAR": {
        "show_search": True,
        "show_all_applications": False,
        "navigation": [
            {
                "title": "Traffic",
                "items": [
                    _live("Log", "swap_horiz", "message", "searches"),
                    _live("Sessions", "cable", "session"),
                    _link("Background calls", "bolt", "call"),
                    {
                        **_link("Approvals", "approval", "approval", seen_with="call"),
                        "badge": _Waiting(),
                        "badge_url": reverse_lazy("admin:mcp_app_approval_live"),
                    },
                    _page("Figures", "bar_chart", "figures"),
                    _page("Errors", "error", "errors", "error"),
                ],
            },
            {
                "title": "Catalogue",
                "items": [
                    _link("Tools", "build", "tool"),
                    _link("Prompts", "chat", "prompt"),
                    _tabbed(
                        _link("Resources", "description", "resource"),
                        _link("Resource templates", "data_object", "resourcetemplate"),
                    ),
                    _drafts(),
                    _link("OpenAPI documents", "api", "apidocument"),
                    _link("Toolsets", "category", "toolset"),
                    _tabbed(
                        _link("Upstream servers", "lan", "upstream"),
                        _link("User connections", "link", "userconnection"),
                    ),
                ],
            },
            {
                "title": "Access",
                "items": [
                    _tabbed(
                        _link("Users", "person", "user", "auth"),
                        _link("External identities", "badge", "externalidentity"),
                    ),
                    _link("Groups", "group", "group", "auth"),
                    _link("Limits", "speed", "limitrule"),
                    _link("API keys", "key", "apikey"),
                    _link("Credentials", "lock", "credential"),
                    _tabbed(
                        _link("OAuth clients", "apps", "client", "mcp_oauth"),
                        _link("OAuth connections", "link", "connection", "mcp_oauth"),
                    ),
                    _link("Audit trail", "policy", "auditevent"),
                ],
            },
            {
                "title": "Server",
                "items": [
                    {
                        "title": "Connect a client",
                        "icon": "power",
                        "link": reverse_lazy("mcp_connect"),
                        "permission": _connect_is_served,
                    },
                    {
                        "title": "Notifications",
                        "icon": "notifications",
                        "link": reverse_lazy("mcp_notifications"),
                    },
                    {
                        "title": "Doctor",
                        "icon": "stethoscope",
                        "link": reverse_lazy("admin:mcp_app_doctor_changelist"),
                        "permission": lambda request: request.user.has_perm("mcp_app.run_doctor"),
                    },
                    {"title": "REST API", "icon": "api", "link": reverse_lazy("mcp_api:docs")},
                ],
            },
        ],
    },
}
