"""Owns naming the time zone on pages that have no admin class to do it for them."""

from django import template

from mcp_app.auth import time_zone

register = template.Library()


@register.simple_tag
def mcp_zone_script() -> str:
    """The address of the script that names the zone and lets one choose another."""
    return time_zone.zone_script()


@register.simple_tag
def mcp_zone_name() -> str:
    """The zone of this page."""
    return time_zone.shown_zone()
