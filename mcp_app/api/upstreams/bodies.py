"""Bodies of requests and responses about upstream servers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from mcp_app.api.base import InputSerializer
from mcp_app.api.formats import RowSerializer
from mcp_app.catalogue.sources.upstream.definitions import names_of
from mcp_app.catalogue.upstreams import refreshing, storing
from mcp_app.catalogue.upstreams.tools import tools_of
from mcp_app.models import Upstream
from mcp_app.upstreams import health


class UpstreamShown(RowSerializer[Upstream]):
    """An upstream server."""

    state = serializers.SerializerMethodField(
        help_text="The last request to the server: available, unavailable, refused or unknown."
    )
    problem = serializers.SerializerMethodField(help_text="The reason if the last request failed.")
    tools = serializers.SerializerMethodField(
        help_text="Each tool that the server lists, with its name here. `tool` is null until it is published."
    )

    class Meta:
        model = Upstream
        fields: Any = (
            "name", *storing.FIELDS, "title", "version", "state", "problem", "tools", "listed_at",
            "created_at", "updated_at",
        )  # fmt: skip

    def get_state(self, row: Upstream) -> str:
        return health.of(row.pk).state

    def get_problem(self, row: Upstream) -> str:
        return health.of(row.pk).text

    def get_tools(self, row: Upstream) -> list[dict[str, Any]]:
        listed, there = refreshing.listed_tools(row), tools_of(row)
        names = names_of(listed, row.prefix)
        found = {name: there[name].name if name in there else None for name in (*listed, *there)}
        return [
            {
                "name": name,
                "proposed_name": names.get(name),
                "tool": tool,
                "calls_refused": name in row.held,
            }
            for name, tool in found.items()
        ]


class UpstreamInput(InputSerializer):
    """The settings of a server. Missing values are not changed."""

    url = serializers.CharField(max_length=2_000, required=False)
    prefix = serializers.CharField(max_length=31, required=False, allow_blank=True)
    credential = serializers.CharField(max_length=64, required=False, allow_blank=True)
    era = serializers.ChoiceField(choices=Upstream.Era.choices, required=False)
    isolation = serializers.ChoiceField(choices=Upstream.Isolation.choices, required=False)
    timeout_seconds = serializers.FloatField(required=False, min_value=1, max_value=900)
    sampling = serializers.BooleanField(required=False, help_text="Relay prompts to models of clients.")
    roots = serializers.BooleanField(required=False, help_text="Relay requests for folders of clients.")
    enabled = serializers.BooleanField(required=False)


class NewUpstreamInput(UpstreamInput):
    """A new server."""

    name = serializers.CharField(max_length=64)
    url = serializers.CharField(max_length=2_000)


class ToolsInput(InputSerializer):
    """The tools to import, by their names at the server."""

    tools = serializers.ListField(child=serializers.CharField(max_length=256), max_length=2_000)
    names = serializers.DictField(
        child=serializers.CharField(max_length=128), required=False, help_text="Other names here."
    )


class ToolsImported(InputSerializer):
    """The outcome of an import."""

    drafts = serializers.ListField(child=serializers.CharField())
    skipped = serializers.DictField(child=serializers.CharField(), help_text="Reasons by tool.")


class ToolsRead(InputSerializer):
    """The outcome of reading the tools of a server."""

    problem = serializers.CharField(allow_blank=True)
    tools = serializers.IntegerField()
    drafts = serializers.ListField(child=serializers.CharField(), help_text="Tools whose changes are drafts.")
    gone = serializers.ListField(child=serializers.CharField())
    skipped = serializers.DictField(child=serializers.CharField(), help_text="Reasons by tool.")
