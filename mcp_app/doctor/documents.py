"""A check of client metadata documents.

It reports if this server can fetch them, and how clients can connect otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps

from mcp_app import conf
from mcp_app.auth.own_addresses import offers_oauth
from mcp_app.doctor.finding import Finding, error, ok, warning
from mcp_app.doctor.installation import Installation

CHECK = "documents.reach"
REACH = "Let this server reach the internet, by EGRESS_PROXY where there is a proxy"


def reach(_: Installation) -> Iterator[Finding]:
    """Report if clients that publish a metadata document can log in."""
    if not offers_oauth() or not apps.is_installed("mcp_app.oauth"):
        return
    # Imported here, because a project may not have installed this app.
    from mcp_app.oauth.announced import unreachable
    from mcp_app.oauth.documents import accepted

    settings = conf.get()
    registers = "register" if settings.oauth_registration else "have to be added by an administrator"
    if not accepted():
        yield ok(CHECK, f"client documents are not accepted: clients {registers}")
        return
    named = ", ".join(settings.oauth_document_hosts)
    if settings.oauth_documents == "auto" and settings.oauth_registration and "*" not in named:
        yield ok(CHECK, f"client documents of {named} are accepted; other clients register")
        return
    missing = ", ".join(unreachable())
    if not missing:
        yield ok(CHECK, "this server can fetch client documents")
    elif not settings.oauth_registration:
        remedy = f"{REACH}, or set OAUTH_REGISTRATION=on, or add the clients in the admin."
        yield error(CHECK, f"no response from {missing}: their clients cannot connect", remedy)
    elif settings.oauth_documents == "on":
        text = f"no response from {missing}: their clients cannot connect, and do not register instead"
        yield error(CHECK, text, f"{REACH}, or set OAUTH_DOCUMENTS=auto.")
    else:
        text = f"no response from {missing}: clients register instead of publishing a document"
        yield warning(CHECK, text, f"{REACH}, or set OAUTH_DOCUMENTS=off if this is intended.")


CHECKS = (reach,)
