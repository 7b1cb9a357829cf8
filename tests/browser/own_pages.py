"""The pages of a site, for tests that examine each of them."""

from __future__ import annotations

import json
from typing import Any

from tests.servers.live import LiveServer


def every_page(site: LiveServer) -> dict[str, str]:
    """Return every page of a seeded site by a short name; keys are looked up in its database."""
    code = """
import json
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from mcp_app.models import *
for owner, name, text in (("root", "Slow today", "ms:>1s since:today"),
                          ("root", "w" * 80, "status:error " + "x" * 200),
                          ("viewer", "<script>pwned=1</script>", '"<script>pwned=1</script>"')):
    SavedSearch.objects.get_or_create(user=get_user_model().objects.get(username=owner), name=name, text=text,
                                      shared=owner != "root")
tool, prompt, resource, key = Tool.objects, Prompt.objects, Resource.objects, ApiKey.objects
print(json.dumps({
    "tool": [("code", tool.get(name="echo").pk), ("drift", tool.get(name="web_scrape").pk),
             ("preset", tool.get(name="greet_world").pk), ("hostile", tool.get(source="upstream").pk)],
    "prompt": [("own", prompt.get(name="summarise").pk), ("code", prompt.get(name="code_review").pk)],
    "resource": [("own", resource.get(source="admin").pk), ("code", resource.get(source="code").pk)],
    "resourcetemplate": [("code", ResourceTemplate.objects.get().pk)],
    "apikey": [("own", key.get(name="laptop").pk), ("hostile", key.get(prefix="<b>mcp_x").pk)],
    "session": [("own", f"{0:032x}"), ("hostile", f"{9:032x}")],
    "message": [("own", Message.objects.filter(request_id="63").get().pk),
                ("hostile", Message.objects.filter(kind="<b>x</b>").get().pk),
                ("crash", Message.objects.get(incident="00000001").pk)],
    "call": [("own", Call.objects.get(retry_of=None, tool="echo").pk.hex),
             ("running", Call.objects.get(tool="count", state="running").pk.hex),
             ("hostile", Call.objects.get(outcome="error").pk.hex),
             ("undecided", Call.objects.get(tool="discard").pk.hex),
             ("hostile-undecided", Call.objects.get(four_eyes=True).pk.hex)],
    "approval": [],
    "group": Group.objects.get_or_create(name="Editors of the shop")[0].pk,
    "person": get_user_model().objects.get(username="viewer").pk,
    "error": [(name, ErrorGroup.objects.filter(words__startswith=words).first().pk)
              for name, words in (("own", "Shelf"), ("hostile", "<script>"), ("crash", "app."))],
    "auditevent": [("hostile", AuditEvent.objects.latest("pk").pk)],
}))
"""
    rows: dict[str, Any] = json.loads(site.shell(code).strip().splitlines()[-1])
    found = {
        "index": "/admin/",
        "index-week": "/admin/?range=week",
        "searches": "/admin/mcp_app/message/searches/",
        "zone": "/zone/",
        "document": "/find/documents/operate/background.md",
        "document-tables": "/find/documents/roles.md",
        "notifications": "/notifications/",
        "seen": f"/people/{rows['person']}/?kind=tool",
        "user": f"/admin/auth/user/{rows.pop('person')}/change/",
        "group": f"/admin/auth/group/{rows['group']}/change/",
        "group-delete": f"/admin/auth/group/{rows['group']}/delete/",
        "group-history": f"/admin/auth/group/{rows.pop('group')}/history/",
        "found": "/find/?q=echo",
        "errors": "/admin/mcp_app/message/errors/?show=all",
        **{f"error-{name}": f"/admin/mcp_app/message/errors/{pk}/" for name, pk in rows.pop("error")},
        **{
            f"figures-{by}": f"/admin/mcp_app/message/figures/?by={by}&range=week"
            for by in ("tool", "client", "principal", "time")
        },
        "users": "/admin/auth/user/",
        "groups": "/admin/auth/group/",
        "doctor": "/admin/mcp_app/doctor/",
    }
    key = dict(rows["apikey"])
    found |= {f"apikey-replace-{name}": f"/admin/mcp_app/apikey/{pk}/replace/" for name, pk in key.items()}
    found["figures-of-key"] = f"/admin/mcp_app/message/figures/?principal=user:1/key:{key['own']}"
    for model, named in rows.items():
        found[f"{model}-list"] = f"/admin/mcp_app/{model}/"
        for name, pk in named:
            found[f"{model}-{name}"] = f"/admin/mcp_app/{model}/{pk}/change/"
        if model in ("tool", "prompt", "resource", "apikey"):
            found[f"{model}-add"] = f"/admin/mcp_app/{model}/add/"
    echo, own = f"/admin/mcp_app/tool/{rows['tool'][0][1]}", f"/admin/mcp_app/prompt/{rows['prompt'][0][1]}"
    return found | {
        "tool-history": f"{echo}/history/",
        "tool-bench": f"{echo}/try/",
        "tool-callers": f"{echo}/callers/",
        "tool-deleted": "/admin/mcp_app/tool/deleted/",
        "tool-import": "/admin/mcp_app/tool/import/",
        "tool-http": "/admin/mcp_app/tool/http/",
        "credential-list": "/admin/mcp_app/credential/",
        "credential-add": "/admin/mcp_app/credential/add/?kind=client_credentials",
        "document-list": "/admin/mcp_app/apidocument/",
        "document-add": "/admin/mcp_app/apidocument/import/",
        "limit-list": "/admin/mcp_app/limitrule/",
        "limit-add": "/admin/mcp_app/limitrule/add/",
        "toolset-list": "/admin/mcp_app/toolset/",
        "toolset-add": "/admin/mcp_app/toolset/add/",
        "toolset-tokens": "/admin/mcp_app/toolset/tokens/",
        "upstream-list": "/admin/mcp_app/upstream/",
        "user-connections": "/admin/mcp_app/userconnection/",
        "upstream-add": "/admin/mcp_app/upstream/add/",
        "upstream-configuration": "/admin/mcp_app/upstream/configuration/",
        "identities": "/admin/mcp_app/externalidentity/",
        "oauth-clients": "/admin/mcp_oauth/client/",
        "oauth-client-add": "/admin/mcp_oauth/client/add/",
        "oauth-connections": "/admin/mcp_oauth/connection/",
        "prompt-bench": f"{own}/try/",
        "prompt-callers": f"{own}/callers/",
        "prompt-delete": f"{own}/delete/",
        "draft-list": "/admin/mcp_app/draft/",
        "app": "/admin/mcp_app/",
        "password": "/admin/password_change/",
        "console": "/admin/mcp_app/session/?live=1",
        "console-messages": "/admin/mcp_app/message/?live=1",
        "console-session": f"/console/sessions/{0:032x}/",
    }
