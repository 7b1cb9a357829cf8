"""Addresses of all admin pages of this project, for tests that visit every page."""

from __future__ import annotations

from django.urls import reverse

from tests.samples.admin_seed import Seed

MODELS = (
    "tool",
    "prompt",
    "resource",
    "resourcetemplate",
    "draft",
    "apikey",
    "session",
    "message",
    "auditevent",
    "call",
    "approval",
)
ADDABLE = ("tool", "prompt", "resource", "apikey")


def page(model: str, view: str, *args: object) -> str:
    """Return the address of one page, for example ``page("tool", "change", 1)``."""
    return reverse(f"admin:mcp_app_{model}_{view}", args=args)


def lists() -> list[str]:
    """Return the addresses of all change lists."""
    return [page(model, "changelist") for model in MODELS]


def rows(seed: Seed) -> list[str]:
    """Return the pages and histories of ordinary and hostile rows."""
    from mcp_app.models import ApiKey, AuditEvent, Call, Prompt, Resource, Tool

    entries = [
        (name, row.pk)
        for name, model in (("tool", Tool), ("prompt", Prompt), ("resource", Resource))
        for row in model.objects.all()
    ]
    entries.append(("resourcetemplate", seed.template.pk))
    others = [("apikey", row.pk) for row in ApiKey.objects.all()]
    others += [("auditevent", row.pk) for row in AuditEvent.objects.all()]
    others += [("session", seed.session.pk), ("session", seed.hostile_session.pk)]
    others += [("message", seed.message.pk), ("message", seed.hostile_message.pk)]
    others += [("call", row.pk) for row in Call.objects.all()]
    changes = [page(model, "change", pk) for model, pk in entries + others]
    return changes + [page(model, "history", pk) for model, pk in entries]


def forms() -> list[str]:
    """Return the addresses of all add forms."""
    return [page(model, "add") for model in ADDABLE]
