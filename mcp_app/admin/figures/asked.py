"""The view that a query string requests: the grouping, and the tool or caller whose calls are counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from mcp_app.auth.principal_names import principal_names
from mcp_app.auth.time_zone import shown_zone
from mcp_app.interface.text import marked
from mcp_app.message_log.counts import limited_figures
from mcp_app.message_log.counts.figures import TOOL
from mcp_app.message_log.rollup_cells import TOOL_CHARACTERS
from mcp_app.models import CallerRollup

TIME: Final = "time"
CLIENT, PRINCIPAL = CallerRollup.Kind.CLIENT.value, CallerRollup.Kind.PRINCIPAL.value
# For each view, the heading of the first column, and the filter of the log that finds the messages of a row.
BY: Final = {
    TOOL: ("Tool", "target"),
    CLIENT: ("Client", "client"),
    PRINCIPAL: ("User", "principal"),
    TIME: ("Time", ""),
}
VIEWS: Final = {TOOL: "By tool", CLIENT: "By client", PRINCIPAL: "By user", TIME: "Over time"}
# The kinds of names that can limit the counted calls, with the maximum length of a name.
LIMITS: Final = {TOOL: TOOL_CHARACTERS, CLIENT: 200, PRINCIPAL: 120}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True)
class View:
    """A grouping of calls. ``kind`` and ``name`` limit the calls to one tool, client or principal, or are "".

    ``label`` is the display name of the limit.
    """

    by: str
    kind: str = ""
    name: str = ""
    label: str = ""

    @property
    def tool(self) -> str:
        """The name of the tool whose calls are counted, or "" for calls of any tool."""
        return self.name if self.kind == TOOL else ""

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the limit on this page."""
        return {self.kind: self.name} if self.kind else {}

    @property
    def log(self) -> dict[str, str]:
        """The filter of the message log that finds the calls within the limit."""
        return {BY[self.kind][1]: self.name} if self.kind else {}

    @property
    def title(self) -> str:
        """The heading of the table."""
        calls = f"Calls of {marked(self.label)}" if self.kind else "Tool calls"
        return f"{calls} {VIEWS[self.by].lower()}"

    @property
    def first(self) -> str:
        """The heading of the first column. For times it includes the time zone."""
        return f"{BY[self.by][0]} ({shown_zone()})" if self.by == TIME else BY[self.by][0]

    def condition(self, since: datetime) -> Q:
        """Return the condition for the messages within the limit. ``since`` is the start of the period."""
        return limited_figures.of_client(self.name, since) if self.kind == CLIENT else Q(**self.log)

    def names(self, name: str) -> list[tuple[str, str]]:
        """Return the titles and values of the CSV columns that name the calls of a row.

        The tool is always named, so that files of several tools can be joined.
        """
        known = {self.kind: self.label, self.by: name}
        kinds = [kind for kind in LIMITS if kind == TOOL or kind in known]
        return [(BY[kind][0], known.get(kind, "")) for kind in kinds]

    def file_name(self, since: datetime, until: datetime) -> str:
        """Return the name of the CSV file, with the limit, the period and the time zone."""
        begin, end = (f"{timezone.localtime(at):%Y-%m-%dT%H%M}" for at in (since, until))
        shown = "user" if self.by == PRINCIPAL else self.by
        parts = ["calls", "by", shown, *(["of", self.label[:60]] if self.kind else []), begin, "to", end]
        return "-".join(_UNSAFE.sub("-", part).strip("-.") for part in (*parts, shown_zone())) + ".csv"


def asked_view(request: HttpRequest) -> View:
    """Return the requested view.

    A view is never grouped by the kind of name that limits it, because it would have a single row.
    """
    asked = {kind: request.GET.get(kind, "")[:most].replace("\x00", "") for kind, most in LIMITS.items()}
    by = request.GET.get("by", "")
    # The parameters of the page were the name of a tool alone, with which the view by tool was everything.
    kind = "" if by == TOOL and asked[TOOL] else next((each for each in LIMITS if asked[each]), "")
    by = by if by in BY else _usual(kind)
    name = asked[kind] if kind else ""
    label = principal_names([name])[name] if kind == PRINCIPAL else name
    return View(by if by != kind else _usual(kind), kind, name, label)


def _usual(kind: str) -> str:
    return CLIENT if kind == TOOL else PRINCIPAL if kind == CLIENT else TOOL
