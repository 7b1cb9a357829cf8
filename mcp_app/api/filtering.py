"""Filters of lists.

Each field of a filter is a query parameter. The ``source`` of the field is the query lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from rest_framework import serializers
from rest_framework.request import Request

from mcp_app.api.formats import DateTimeField
from mcp_app.auth.api_keys import key_states, login_name
from mcp_app.catalogue.definitions.tags import MAX_TAG
from mcp_app.catalogue.sources import lookup
from mcp_app.catalogue.sources.tagged import rows_tagged
from mcp_app.message_log.triage import ENDED_MUTE, UNRESOLVED
from mcp_app.models import ApiDocument, Credential, LimitRule, Message, Toolset, Triage, Upstream
from mcp_app.protocol.call_state import TERMINAL, State
from mcp_app.protocol.refusals import Code
from mcp_app.protocol.versions import LEGACY
from mcp_app.sessions.services import session_states


def asked(form: type[serializers.Serializer[Any]], request: Request, *more: str) -> Any:
    """Return the query string as a validated ``form``.

    ``more`` lists parameters that other code reads. Raises ValidationError for invalid and for unknown
    parameters.
    """
    given = {name: value for name, value in request.query_params.items() if name not in more}
    checked = form(data=given)
    if unknown := sorted(given.keys() - checked.fields.keys()):
        raise serializers.ValidationError({unknown[0]: ["Unknown parameter."]})
    checked.is_valid(raise_exception=True)
    return checked


class NoFilter(serializers.Serializer[Any]):
    """The empty filter, of a list that cannot be filtered."""


def _text(longest: int, source: str | None = None) -> Any:
    return serializers.CharField(required=False, max_length=longest, source=source)


def _in_state(rows: Any, states: Mapping[str, Q], asked: Mapping[str, Any]) -> Any:
    fields = {name: value for name, value in asked.items() if name != "state"}
    return rows.filter(states.get(asked.get("state", ""), Q()), **fields)


def _moment(source: str | None = None) -> Any:
    return DateTimeField(required=False, source=source)


def _choice(choices: Any, **more: Any) -> Any:
    return serializers.ChoiceField(required=False, choices=choices, **more)


class EntryFilter(serializers.Serializer[Any]):
    """Filters of all kinds of entries."""

    tag = _text(MAX_TAG)

    def narrow(self, rows: Any) -> Any:
        """Filter entries. The tags are those that clients see."""
        asked = dict(self.validated_data)
        tag = asked.pop("tag", "")
        rows = rows.filter(**asked)
        return rows.filter(pk__in=rows_tagged(rows.model, tag)) if tag else rows


class ToolFilter(EntryFilter):
    """Filters of tools and prompts."""

    name = _text(128)
    enabled = serializers.BooleanField(required=False)
    source: Any = _choice(lookup.choices())


class ResourceFilter(EntryFilter):
    """Filters of resources."""

    uri = _text(500)
    enabled = serializers.BooleanField(required=False)
    source: Any = _choice(lookup.choices())


class TemplateFilter(EntryFilter):
    """Filters of resource templates."""

    uri_template = _text(500)
    enabled = serializers.BooleanField(required=False)


class SessionFilter(serializers.Serializer[Any]):
    """Filters of sessions."""

    state = _choice(["open", "idle", "ended"])
    version = _choice(LEGACY, source="protocol_version")
    principal = _text(120)
    client = _text(200, "client_name")
    since = _moment("created_at__gte")
    until = _moment("created_at__lte")

    def narrow(self, rows: Any) -> Any:
        """Filter sessions. The states are the same as in the admin."""
        return _in_state(rows, session_states(), self.validated_data)


class MessageFilter(serializers.Serializer[Any]):
    """Filters of messages, as ``LogPages`` expects them."""

    session = _text(64)
    method = _text(120)
    target = _text(200)
    request_id = _text(120)
    direction = _choice(Message.Direction.choices)
    outcome = _choice(Message.Outcome.choices)
    refusal = _choice([code.value for code in Code])
    incident = _text(8)
    since = _moment()
    until = _moment()


class ErrorFilter(serializers.Serializer[Any]):
    """Filters of errors."""

    state = _choice(["unresolved", "muted", "resolved"])
    is_fault = serializers.BooleanField(required=False)
    method = _text(120)
    tool = _text(128)
    since = _moment("last_at__gte")
    until = _moment("last_at__lte")

    def narrow(self, rows: Any) -> Any:
        """Filter errors. The states are the same as in the admin."""
        asked = dict(self.validated_data)
        match asked.pop("state", None):
            case "unresolved":
                rows = rows.filter(UNRESOLVED)
            case "muted":
                rows = rows.filter(triage=Triage.MUTED).exclude(ENDED_MUTE)
            case "resolved":
                rows = rows.filter(triage=Triage.RESOLVED)
        return rows.filter(**asked)


class CallFilter(serializers.Serializer[Any]):
    """Filters of calls. ``open`` matches every state that is not final."""

    state = _choice(["open", *(state.value for state in State)])
    outcome = _choice(Message.Outcome.choices)
    tool = _text(128)
    principal = _text(120)
    session = _text(64, "session_id")
    since = _moment("accepted_at__gte")
    until = _moment("accepted_at__lte")

    def narrow(self, rows: Any) -> Any:
        """Filter calls. ``open`` excludes final states."""
        asked = dict(self.validated_data)
        if asked.get("state") == "open":
            del asked["state"]
            rows = rows.exclude(state__in=TERMINAL)
        return rows.filter(**asked)


class KeyFilter(serializers.Serializer[Any]):
    """Filters of API keys."""

    state = _choice(["active", "expired", "revoked"])
    user = _text(150, login_name("user"))

    def narrow(self, rows: Any) -> Any:
        """Filter API keys. The states are the same as in the admin."""
        return _in_state(rows, key_states(), self.validated_data)


class CredentialFilter(serializers.Serializer[Any]):
    """Filters of credentials."""

    kind = _choice(Credential.Kind.values)


class DocumentFilter(serializers.Serializer[Any]):
    """Filters of OpenAPI documents."""

    state = _choice(ApiDocument.State.values)


class ToolsetFilter(serializers.Serializer[Any]):
    """Filters of toolsets."""

    enabled = serializers.BooleanField(required=False)
    audience = _choice(Toolset.Audience.values)


class UpstreamFilter(serializers.Serializer[Any]):
    """Filters of upstream servers."""

    era = _choice(Upstream.Era.values)


class LimitFilter(serializers.Serializer[Any]):
    """Filters of limits."""

    who = _choice(LimitRule.Who.values)
    what = _choice(LimitRule.What.values)
    mode = _choice(LimitRule.Mode.values)


class AuditFilter(serializers.Serializer[Any]):
    """Filters of the audit trail."""

    actor = _text(200, "actor_name")
    action = _text(60)
    object_kind = _text(40)
    object_key = _text(500)
    since = _moment("at__gte")
    until = _moment("at__lte")
