"""The time zone on pages without an admin class."""

from django import template

from mcp_app.auth import time_zone

register = template.Library()


@register.simple_tag
def mcp_zone_script() -> str:
    """Return the address of the script that shows the time zone and offers to change it."""
    return time_zone.zone_script()


@register.simple_tag
def mcp_zone_name() -> str:
    """Return the time zone of this page."""
    return time_zone.shown_zone()
