"""Decisions about pending calls of a live server, made by an operator in another process."""

from __future__ import annotations

import json

from tests.servers.live import LiveServer

_CODE = """
from django.contrib.auth import get_user_model
from mcp_app.execution import decisions
from mcp_app.models import Call
boss, _ = get_user_model().objects.get_or_create(username="boss")
for call in Call.objects.filter(request_id__in={ids!r}).order_by("accepted_at"):
    try:
        decisions.{verb}_call(call_id=call.pk, actor=boss, reason={reason!r})
        print("{verb}d", call.tool)
    except decisions.DecisionRefused as refused:
        print("not decided:", refused)
"""


def decide(server: LiveServer, verb: str, *request_ids: str, reason: str = "because") -> str:
    """``approve`` or ``refuse`` the calls with these request ids and return the printed outcome."""
    ids = [json.dumps(request_id) for request_id in request_ids]
    return server.shell(_CODE.format(verb=verb, ids=ids, reason=reason))


def states(server: LiveServer, *request_ids: str) -> list[str]:
    """Return the states of the calls with these request ids, oldest first."""
    ids = [json.dumps(request_id) for request_id in request_ids]
    code = f"""
from mcp_app.models import Call
print(*Call.objects.filter(request_id__in={ids!r}).order_by("accepted_at").values_list("state", flat=True))
"""
    return server.shell(code).split()
