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
