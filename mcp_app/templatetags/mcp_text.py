"""Template filters for untrusted text, defined in ``mcp_app.interface.text``."""

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from mcp_app.interface import text

register = template.Library()
# HTML for elements.
register.filter(text.visible)
register.filter(text.visible_block)
# Plain text for attributes and for elements without markup, such as ``option``.
register.filter(text.marked)


@register.filter
def with_code(said: str) -> SafeString:
    """Return a text as HTML, with the parts between backticks as code."""
    parts = [text.visible(part) for part in said.split("`")]
    if len(parts) % 2 == 0:
        return text.visible(said)
    parts[1::2] = [format_html("<code>{}</code>", part) for part in parts[1::2]]
    return format_html_join("", "{}", ((part,) for part in parts))


@register.filter
def grouped(number: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{number:,}"
