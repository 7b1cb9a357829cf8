"""The other pages that query the log or relate to it: global search, lists, users, the API."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib.auth import get_user_model

from benchmarks.log.fill import some_time
from mcp_app.models import ApiKey, AuditEvent, Call, Draft, Message, Prompt, Resource, SavedSearch, Tool

ADMIN = "/admin/mcp_app"
LOG = f"{ADMIN}/message/"
FIND = "/find/"
# Each term of the search language alone, and some combined, as the log and the console accept them.
SEARCHES = {
    "since": "since:2d",
    "until": "until:9d",
    "a day": "since:4d until:3d",
    "client": "client:cursor",
    "client*": "client:cod*",
    "client nobody": "client:nobody",
    "user by name": "user:person0077",
    "user by number": "user:77",
    "user by principal": "user:user:1/key:1",
    "user nobody": "user:nobody",
    "tool": "tool:tool_7",
    "tool*": "tool:tool_*",
    "tool nothing": "tool:nothing",
    "target": "target:notes://4711",
    "ms over": "ms:>200",
    "ms under": "ms:<1",
    "ms over any": "ms:>100000s",
    "status error": "status:error",
    "status tool_error": "status:tool_error",
    "status cancelled": "status:cancelled",
    "status asked (none)": "status:asked",
    "status ok": "status:ok",
    "not ok": "-status:ok",
    "session": "session:{session}",
    "session*": "session:{begin}*",
    "session nobody": "session:nobody",
    "method": "method:ping",
    "method*": "method:resources/*",
    "not a method": "-method:tools/call",
    "dir out (none)": "dir:out",
    "id": "id:4711",
    "kind": "kind:notification",
    "process": "process:host:1",
    "process nobody": "process:nobody",
    "words": "asked",
    "words nobody said": "never-said",
    "words said not": "-asked",
    "error since": "status:error since:1d",
    "error of a client": "status:error client:cursor",
    "slow of a tool": "tool:tool_7 ms:>200",
    "slow of a user until": "user:person0077 ms:>200 until:9d",
    "words of a session": "session:{session} never-said",
    "all": "since:9d until:2d client:cursor user:person0077 tool:tool_7 ms:>1 status:error asked",
}


def pages_beside(message: Message, call: Call) -> dict[str, str]:
    """Return addresses by page name; ``message`` is in the middle of the log."""
    return {**_searches(message), **found(message, call), **_lists(), **_rows(), **_api(message, call)}


def _searches(message: Message) -> dict[str, str]:
    session = str(message.session_id)
    addresses = {}
    for name, words in SEARCHES.items():
        text = words.format(session=session, begin=session[:-3])
        addresses[f"log searched: {name}"] = f"{LOG}?{urlencode({'q': text})}"
        addresses[f"live searched: {name}"] = f"/console/messages/lines.json?{urlencode({'search': text})}"
    return addresses


def found(message: Message, call: Call) -> dict[str, str]:
    """Return global searches, each for one object of every kind."""
    named = {
        "a tool": "tool_7", "a word of many": "tool", "a letter": "e", "nothing": "never said",
        "a client": "cursor", "a session": message.session_id, "a call": call.pk, "a message": message.pk,
        "a request": "4711", "a person": "person0077", "a key": "laptop 77", "a prompt": "prompt_7",
        "a resource": "notes://77", "a setting": "message log", "a page": "figures", "none": "",
    }  # fmt: skip
    page = {"anything, as a page": f"{FIND}?q=tool"}
    return page | {
        f"anything: {name}": f"{FIND}?{urlencode({'q': text, 'format': 'json'})}"
        for name, text in named.items()
    }


def _lists() -> dict[str, str]:
    calls, approvals = f"{ADMIN}/call/", f"{ADMIN}/approval/"
    return {
        **{f"{name}s": f"{ADMIN}/{name}/" for name in ("tool", "prompt", "resource", "resourcetemplate")},
        "tools searched": f"{ADMIN}/tool/?q=tool_7",
        "tools, last page": f"{ADMIN}/tool/?p=2",
        "drafts": f"{ADMIN}/draft/",
        "deleted prompts": f"{ADMIN}/prompt/deleted/",
        "keys": f"{ADMIN}/apikey/",
        "keys, active": f"{ADMIN}/apikey/?state=active",
        "keys searched": f"{ADMIN}/apikey/?q=laptop+77",
        "changes": f"{ADMIN}/auditevent/",
        "changes, last page": f"{ADMIN}/auditevent/?p={AuditEvent.objects.count() // 100}",
        "changes searched": f"{ADMIN}/auditevent/?q=4711",
        "changes of an action": f"{ADMIN}/auditevent/?action=session.end",
        "users": "/admin/auth/user/",
        "users searched": "/admin/auth/user/?q=person0077",
        "groups": "/admin/auth/group/",
        "external identities": f"{ADMIN}/externalidentity/",
        "OAuth clients": "/admin/mcp_oauth/client/",
        "OAuth connections": "/admin/mcp_oauth/connection/",
        "saved searches": f"{LOG}searches/",
        "notifications": "/notifications/",
        "connect": "/connect/",
        "live messages": f"{LOG}?live=1",
        "approvals": approvals,
        "approvals, all": f"{approvals}?decision=any",
        "approvals, refused": f"{approvals}?decision=refused",
        "approvals searched": f"{approvals}?q=tool_7",
        "calls of a chosen tool": f"{calls}?tool=tool_10",
        "calls of a user": f"{calls}?q=user:77",
        "calls of today": f"{calls}?accepted_at__gte={some_time(20)}Z",
        "calls by tool": f"{calls}?o=1",
        "calls by caller": f"{calls}?o=3",
        "sessions by caller": f"{ADMIN}/session/?o=3",
        "sessions of today": f"{ADMIN}/session/?created_at__gte={some_time(20)}Z",
        "sessions ended of a revision": f"{ADMIN}/session/?state=ended&version=2025-03-26",
        **{f"figures by {by}, a file": f"{LOG}figures/?by={by}&range=week&format=csv"
           for by in ("tool", "client", "principal", "time")},
        "figures by workers": f"{LOG}figures/?by=worker",
    }  # fmt: skip


def _rows() -> dict[str, str]:
    tool, prompt = Tool.objects.get(name="tool_7"), Prompt.objects.get(name="prompt_7")
    guarded, resource = Tool.objects.get(name="tool_9"), Resource.objects.get(uri="notes://7")
    person = get_user_model().objects.get(username="person0077")
    key, event = ApiKey.objects.earliest("pk"), AuditEvent.objects.earliest("pk")
    waiting = Call.objects.filter(state="approval_needed").latest("accepted_at")
    search, draft = SavedSearch.objects.earliest("pk"), Draft.objects.first()
    return {
        "a tool": f"{ADMIN}/tool/{tool.pk}/change/",
        "a tool: bench": f"{ADMIN}/tool/{tool.pk}/try/",
        "a tool: history": f"{ADMIN}/tool/{tool.pk}/history/",
        "a tool: who can use it": f"{ADMIN}/tool/{tool.pk}/callers/",
        "a tool with a permission: who can use it": f"{ADMIN}/tool/{guarded.pk}/callers/",
        "a tool: who can use it, the last page": f"{ADMIN}/tool/{guarded.pk}/callers/?p=10",
        "a prompt": f"{ADMIN}/prompt/{prompt.pk}/change/",
        "a prompt: history": f"{ADMIN}/prompt/{prompt.pk}/history/",
        "a prompt: who can use it": f"{ADMIN}/prompt/{prompt.pk}/callers/",
        "a resource": f"{ADMIN}/resource/{resource.pk}/change/",
        "a resource: who can use it": f"{ADMIN}/resource/{resource.pk}/callers/",
        "a person: what they see": f"/people/{person.pk}/",
        "a person": f"/admin/auth/user/{person.pk}/change/",
        "a key": f"{ADMIN}/apikey/{key.pk}/change/",
        "a change": f"{ADMIN}/auditevent/{event.pk}/change/",
        "an approval": f"{ADMIN}/call/{waiting.pk.hex}/change/",
        "a saved search, followed": f"{LOG}?{urlencode({'q': search.text})}",
        **({"a draft": f"{ADMIN}/draft/{draft.pk}/change/"} if draft else {}),
    }


def _api(message: Message, call: Call) -> dict[str, str]:
    middle = f"{message.at:%Y-%m-%dT%H:%M:%SZ}"
    asked: dict[str, dict[str, object]] = {
        "messages": {},
        "messages of a session": {"session": message.session_id},
        "messages of a method": {"method": "ping"},
        "messages of a target": {"target": "tool_7"},
        "messages of a request": {"request_id": "4711"},
        "messages out (none)": {"direction": "out"},
        "messages failed": {"outcome": "error"},
        "messages asked (none)": {"outcome": "asked"},
        "messages since": {"since": f"{some_time(20)}Z"},
        "messages until": {"until": middle},
        "messages of an hour": {"since": f"{some_time(100)}Z", "until": f"{some_time(99)}Z"},
        "messages of another year": {"until": "2020-01-01T00:00:00Z"},
        "messages no filter agrees on": {"method": "ping", "target": "tool_7"},
        "messages no filter agrees on, widely": {"method": "ping", "outcome": "ok", "direction": "out"},
        "messages failed long ago": {"outcome": "error", "until": middle},
        "messages of a target in an hour": {"target": "tool_7", "since": f"{some_time(100)}Z",
                                            "until": f"{some_time(99)}Z"},
        "sessions": {},
        "sessions ended": {"state": "ended"},
        "sessions idle": {"state": "idle"},
        "sessions of a client": {"client": "cursor"},
        "sessions of no client": {"client": "nobody"},
        "sessions of a principal": {"principal": "user:77/key:1"},
        "sessions of a revision until": {"version": "2025-03-26", "until": middle},
        "calls": {},
        "calls open": {"state": "open"},
        "calls failed": {"outcome": "tool_error"},
        "calls of a tool": {"tool": "tool_7"},
        "calls of a principal": {"principal": "user:77/key:1"},
        "calls of nobody": {"principal": "nobody"},
        "calls of a session": {"session": call.session_id},
        "calls until": {"until": middle},
        "keys": {},
        "keys of a user": {"user": "person0077"},
        "audit": {},
        "audit of an action": {"action": "session.end"},
        "audit of an object": {"object_kind": "api_key", "object_key": "4711"},
        "audit of nobody": {"actor": "nobody"},
        "tools": {},
        "prompts": {"limit": 200},
        "resources": {"limit": 200},
    }  # fmt: skip
    lists = {
        f"API: {name}": f"/api/{name.partition(' ')[0]}/?{urlencode(query)}" for name, query in asked.items()
    }
    return {
        **lists,
        "API: a message": f"/api/messages/{message.pk}/",
        "API: a call": f"/api/calls/{call.pk}/",
        "API: a session": f"/api/sessions/{message.session_id}/",
        "API: the document": "/api/schema/",
        "API: export": "/api/catalogue/export/",
    }
