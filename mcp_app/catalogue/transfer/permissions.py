"""Permissions for exporting the catalogue and for importing changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mcp_app.catalogue.changes.services import PUBLISH
from mcp_app.catalogue.transfer.limits import LIMITS
from mcp_app.catalogue.transfer.plan import Difference
from mcp_app.catalogue.transfer.sections import SECTIONS
from mcp_app.models import CATALOGUE_MODELS
from mcp_app.models.catalogue import ENTRY_KINDS

_MODELS: Final = (*(model._meta.model_name for model in CATALOGUE_MODELS), LIMITS.model)
_VERBS: Final = {"added": "add", "changed": "change", "removed": "delete"}

# Export and import need all of them: a file has all kinds, and an import's differences reveal entries.
SEEN: Final = tuple(f"mcp_app.view_{model}" for model in _MODELS)
CHANGED: Final = tuple(f"mcp_app.{verb}_{model}" for model in _MODELS for verb in _VERBS.values())


def needed(differences: Iterable[Difference]) -> list[str]:
    """Return the permissions that an import's changes need, without duplicates."""
    models = {kind.KIND: kind._meta.model_name for kind in ENTRY_KINDS}
    models |= {section.kind: section.model for section in SECTIONS}
    verbs = ((_VERBS[each.action], models[each.kind]) for each in differences)
    named = sorted({f"mcp_app.{verb}_{model}" for verb, model in verbs})
    # Clients see an import at once, so it needs the permission to publish.
    return [*named, PUBLISH] if named else []
