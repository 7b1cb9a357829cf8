"""The requests of a call to other servers, as pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html

from mcp_app.admin.timeline import LONGEST_SHOWN, Pane, pane
from mcp_app.interface.text import marked
from mcp_app.models import Message


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request to another server for display. ``ms`` is None before the end of the response."""

    title: str
    facts: str
    ms: float | None
    failed: bool
    request: Pane | None
    answer: Pane | None


def sent_requests(message: Message) -> list[SentRequest]:
    """Return the requests of a call to other servers, in the order in which they were made."""
    return [_shown(each) for each in message.requests]


def _shown(found: dict[str, Any]) -> SentRequest:
    status, problem = found["status"], found["problem"]
    sizes = f"{filesizeformat(found['sent'])} sent, {filesizeformat(found['received'])} received"
    state = problem or (f"status {status}" if status else "no response yet")
    lines = [f"{name}: {value}" for name, value in found["headers"]]
    body = pane(found["body"], LONGEST_SHOWN)
    head = pane("\n".join([f"{found['method']} {found['url']}", *lines]), LONGEST_SHOWN)
    assert head is not None
    text = (
        head
        if body is None
        else Pane(format_html("{}\n\n{}", head.html, body.html), body.characters, body.cut)
    )
    return SentRequest(
        f"Request {found['number']}",
        marked(f"{state} · {sizes}"),
        found["ms"],
        bool(problem) or (status or 0) >= 400,
        text,
        pane(found["answer"], LONGEST_SHOWN),
    )
