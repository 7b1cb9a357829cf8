"""The frame of the admin's pages: landmarks in the skin, and the places that plain Django admin links."""

from __future__ import annotations

from typing import Any, Final

from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

# Elements of the skin whose role or name is missing, by the beginning of their tags.
NAMED: Final = {
    '<div id="main"': '<div id="main" role="main"',
    '<div id="content"': '<div id="content" tabindex="-1"',
    '<nav id="nav-sidebar-inner"': '<nav id="nav-sidebar-inner" aria-label="Main"',
    # The skin's scroller, whose region has the same name in lists.
    '<div id="nav-sidebar-apps"': '<div id="nav-sidebar-apps" data-simplebar-aria-label="Places"',
    '<nav class="absolute': '<nav aria-label="Account" class="absolute',
    '<nav id="tabs-items"': '<nav id="tabs-items" aria-label="Tabs"',
    '<nav class="bg-white border': '<nav aria-label="Related object" class="bg-white border',
    '<nav id="tabs-dropdown"': '<nav id="tabs-dropdown" aria-label="More tabs"',
}

# What an empty list is for, by the label of its model.
EMPTY: Final = {
    "mcp_app.toolset": "A toolset gives a part of the catalogue its own address.",
    "mcp_app.limitrule": "A limit restricts how often, how many at once or at what cost users call tools.",
    "mcp_app.upstream": "An upstream server is another MCP server whose tools are offered here.",
    "mcp_app.credential": "A credential is a stored secret that HTTP tools and upstream servers send.",
    "mcp_app.userconnection": "A user connection is an account at an upstream server, connected by its user.",
    "mcp_app.draft": "Choose “Save as draft” on an entry to prepare a change that clients do not see yet.",
    "mcp_app.apidocument": "Import the OpenAPI document of an HTTP API to turn its operations into tools.",
    "mcp_app.externalidentity": "Users of an identity provider appear here when they first log in.",
    "mcp_oauth.client": "Applications that log users in appear here when they register or are added.",
    "mcp_oauth.connection": "Applications that act for a user appear here when that user allows it.",
}


@register.filter
def nothing_yet(changes: Any) -> str:
    """Return the text of an empty list: a sentence about its rows, if there is one."""
    return EMPTY.get(changes.opts.label_lower, "There is nothing here yet.")


@register.filter
def landmarks(html: SafeString) -> SafeString:
    """Return a page of the skin whose main part and navigations are named. The skin has no block for them.

    Raises TemplateSyntaxError for an empty page, because Django hides errors inside ``block.super``.
    """
    text = str(html)
    if not text.strip():
        raise template.TemplateSyntaxError("The page is empty: one of its variables or URLs does not exist.")
    for start, named in NAMED.items():
        text = text.replace(start, named)
    return mark_safe(text)  # noqa: S308 - the page was escaped when it was rendered


@register.filter
def labelled(html: SafeString) -> SafeString:
    """Return the search form of a list with a name for its field, which Django names by a picture."""
    named = str(html).replace('id="searchbar"', 'id="searchbar" aria-label="Search"', 1)
    return mark_safe(named)  # noqa: S308 - the form was escaped when it was rendered


@register.simple_tag(takes_context=True)
def mcp_places(context: template.Context, app_list: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the apps that Django's own admin lists, as the groups of the skin's sidebar."""
    from mcpsite.frame.places import grouped

    return grouped(context["request"], app_list) if app_list else app_list
