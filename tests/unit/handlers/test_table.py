"""A method is named in the tables of handlers, of scopes and of known methods, or in none of them."""

from __future__ import annotations

from dataclasses import replace

from mcp_app.catalogue.definitions.registry import registry
from mcp_app.handlers import notifications
from mcp_app.handlers.table import by_version, quick_by_version
from mcp_app.protocol import scopes
from mcp_app.protocol.messages.methods import OTHERS, REQUESTS
from mcp_app.protocol.versions import SERVED
from tests.unit.handlers.desk import SETTINGS

# Served before there is a session, and by the transports.
ELSEWHERE = {"initialize", "subscriptions/listen"}


def test_every_served_method_has_a_scope_and_is_known() -> None:
    """Without a scope a method needs that of tools; unknown it is counted as ``other``."""
    with registry.isolated():
        tables = by_version(replace(SETTINGS, redis_url="redis://nowhere.invalid"))
    served = {method for version in SERVED for method in tables[version]} | ELSEWHERE
    assert served == scopes.BY_METHOD.keys() == REQUESTS


def test_every_quick_method_is_served_at_its_revision() -> None:
    with registry.isolated():
        tables = by_version(SETTINGS)
    for version, quick in quick_by_version().items():
        assert quick.keys() <= tables[version].keys()


def test_every_notification_with_a_handler_is_known() -> None:
    assert notifications.TABLE.keys() <= OTHERS
