"""Template filters for untrusted text, defined in ``mcp_app.interface.text``."""

from django import template

from mcp_app.interface import text

register = template.Library()
# HTML for elements.
register.filter(text.visible)
register.filter(text.visible_block)
# Plain text for attributes and for elements without markup, such as ``option``.
register.filter(text.marked)


@register.filter
def grouped(number: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{number:,}"
