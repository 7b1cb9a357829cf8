"""Bodies of requests and responses about upstream servers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from mcp_app.api.base import InputSerializer
from mcp_app.api.formats import RowSerializer
from mcp_app.catalogue.sources.upstream.definitions import names_of
from mcp_app.catalogue.sources.upstream.kinds import TOOLS, ItemKind, kind_of
from mcp_app.catalogue.upstreams import refreshing, storing
from mcp_app.catalogue.upstreams.entries import entries_of
from mcp_app.models import Upstream, UserConnection
from mcp_app.upstreams import health
from mcp_app.upstreams.accounts.use import problem_of, standing_of


class UpstreamShown(RowSerializer[Upstream]):
    """An upstream server."""

    url = serializers.SerializerMethodField(help_text="The URL without the values of its query.")
    state = serializers.SerializerMethodField(
        help_text="The last request to the server: `available`, `unavailable`, `refused` (it answered, but "
        "could not be used) or `unknown` (no request in the last day)."
    )
    problem = serializers.SerializerMethodField(help_text="The reason if the last request failed.")
    tools = serializers.SerializerMethodField(
        help_text="Each tool that the server lists, with its name here. `tool` is null until it is published."
    )

    contents = serializers.SerializerMethodField(
        help_text="Each prompt, resource and template that the server lists, with its name or URI here."
    )

    class Meta:
        model = Upstream
        fields: Any = (
            "name", *storing.FIELDS, "title", "version", "state", "problem", "tools", "contents", "listed_at",
            "created_at", "updated_at",
        )  # fmt: skip

    def get_url(self, row: Upstream) -> str:
        return "" if row.command else row.address

    def get_state(self, row: Upstream) -> str:
        return health.of(row.pk).state

    def get_problem(self, row: Upstream) -> str:
        return health.of(row.pk).text

    def get_tools(self, row: Upstream) -> list[dict[str, Any]]:
        listed, there = refreshing.listed_items(row), entries_of(row)
        names = names_of(listed, row.name, row.prefix)
        tools = {**{key: item.kind for key, item in listed.items()}, **_kinds(there)}
        return [
            {
                "name": key,
                "proposed_name": names.get(key),
                "tool": there[key].name if key in there else None,
                "calls_refused": key in row.held,
            }
            for key, kind in tools.items()
            if kind is TOOLS
        ]

    def get_contents(self, row: Upstream) -> list[dict[str, Any]]:
        listed, there = refreshing.listed_items(row), entries_of(row)
        names = names_of(listed, row.name, row.prefix)
        kinds = {**{key: item.kind for key, item in listed.items()}, **_kinds(there)}
        return [
            {
                "key": key,
                "kind": kind.noun,
                "proposed_name": names.get(key),
                "entry": getattr(there[key], kind.row.KEY) if key in there else None,
                "refused": key in row.held,
            }
            for key, kind in kinds.items()
            if kind is not TOOLS
        ]


def _kinds(entries: dict[str, Any]) -> dict[str, ItemKind]:
    return {key: kind_of(type(entry)) for key, entry in entries.items()}


class UpstreamInput(InputSerializer):
    """The settings of a server. Missing values are not changed."""

    url = serializers.CharField(max_length=2_000, required=False, allow_blank=True)
    command = serializers.CharField(
        max_length=64,
        required=False,
        allow_blank=True,
        help_text="A command in UPSTREAM_COMMANDS, for a server over stdio. It has no URL.",
    )
    prefix = serializers.CharField(max_length=31, required=False, allow_blank=True)
    credential = serializers.CharField(max_length=64, required=False, allow_blank=True)
    user_connections = serializers.BooleanField(
        required=False,
        help_text="Each user connects an account. `credential` is only used to read the lists of tools, "
        "prompts and resources.",
    )
    oauth_client = serializers.CharField(
        max_length=64, required=False, allow_blank=True, help_text="A credential of the kind `oauth_client`."
    )
    token_exchange = serializers.CharField(
        max_length=64,
        required=False,
        allow_blank=True,
        help_text="A credential of the kind `token_exchange`, for the token of each caller's login.",
    )
    era = serializers.ChoiceField(choices=Upstream.Era.choices, required=False)
    isolation = serializers.ChoiceField(choices=Upstream.Isolation.choices, required=False)
    timeout_seconds = serializers.FloatField(required=False, min_value=1, max_value=900)
    sampling = serializers.BooleanField(required=False, help_text="Relay prompts to models of clients.")
    roots = serializers.BooleanField(required=False, help_text="Relay requests for folders of clients.")
    enabled = serializers.BooleanField(required=False)


class NewUpstreamInput(UpstreamInput):
    """A new server."""

    name = serializers.CharField(max_length=64)


class ToolsInput(InputSerializer):
    """The items to import: tools by their names at the server, and contents by their keys."""

    tools = serializers.ListField(child=serializers.CharField(max_length=2_100), max_length=2_000)
    names = serializers.DictField(
        child=serializers.CharField(max_length=128),
        required=False,
        help_text="The names here, by the names at the server.",
    )


class ToolsImported(InputSerializer):
    """The outcome of an import."""

    drafts = serializers.ListField(child=serializers.CharField())
    skipped = serializers.DictField(child=serializers.CharField(), help_text="Reasons by tool.")


class ToolsRead(InputSerializer):
    """The outcome of reading the lists of a server."""

    problem = serializers.CharField(allow_blank=True)
    tools = serializers.IntegerField()
    prompts = serializers.IntegerField()
    resources = serializers.IntegerField()
    templates = serializers.IntegerField()
    drafts = serializers.ListField(
        child=serializers.CharField(), help_text="Entries whose changes are drafts."
    )
    gone = serializers.ListField(child=serializers.CharField())
    skipped = serializers.DictField(child=serializers.CharField(), help_text="Reasons by name.")


class ConnectionShown(RowSerializer[UserConnection]):
    """A connection of the caller to an account at an upstream server."""

    server = serializers.CharField(source="upstream.name")
    issuer = serializers.CharField(source="client.issuer", help_text="The authorization server.")
    state = serializers.SerializerMethodField(help_text="`connected` or `attention`: connect again.")

    problem = serializers.SerializerMethodField(help_text="The reason why it needs attention.")

    class Meta:
        model = UserConnection
        fields: Any = (
            "server", "issuer", "state", "problem", "scope", "needed", "can_renew", "connected_at",
            "expires_at", "last_used_at",
        )  # fmt: skip

    def get_state(self, row: UserConnection) -> str:
        return standing_of(row).value

    def get_problem(self, row: UserConnection) -> str:
        return problem_of(row)
