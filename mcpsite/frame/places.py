"""The places of the skin's sidebar, as groups that plain Django admin can list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.text import slugify

from mcpsite.unfold import UNFOLD, is_permitted, lines_of


def grouped(request: HttpRequest, app_list: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return Django's list of apps in the groups of the sidebar, with the pages that belong to no model.

    Models that the sidebar does not link keep their app.
    """
    models = {model["admin_url"]: model for app in app_list for model in app["models"]}
    groups: list[dict[str, Any]] = []
    for group in UNFOLD["SIDEBAR"]["navigation"]:
        lines = [line for item in group["items"] for line in lines_of(item)]
        rows = [_row(line, models) for line in lines if is_permitted(line, request)]
        if not groups:
            rows[:0] = _search()
        if rows:
            name = group["title"]
            groups.append(
                {"name": name, "app_label": slugify(name), "app_url": rows[0]["admin_url"], "models": rows}
            )
    others = ({**app, "models": [m for m in app["models"] if m["admin_url"] in models]} for app in app_list)
    groups.extend(app for app in others if app["models"])
    return groups


def _row(line: dict[str, Any], models: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a row of Django's list, with the links of the model if the page lists one."""
    address = str(line["link"])
    return {
        "object_name": slugify(line["title"]),
        **models.pop(address.partition("?")[0], {"add_url": None, "view_only": True}),
        "name": line["title"],
        "admin_url": address,
    }


def _search() -> Iterator[dict[str, Any]]:
    """Yield the row of the search. The skin has a box for it."""
    try:
        yield _row({"title": "Search", "link": reverse("mcp_find")}, {})
    except NoReverseMatch:
        return
