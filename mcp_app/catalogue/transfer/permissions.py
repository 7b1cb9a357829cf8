"""Permissions for exporting the catalogue and for importing changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mcp_app.catalogue.changes.services import PUBLISH
from mcp_app.catalogue.transfer.plan import Difference
from mcp_app.models.catalogue import ENTRY_KINDS

_MODEL_OF: Final = {kind.KIND: kind._meta.model_name for kind in ENTRY_KINDS}
_VERBS: Final = {"added": "add", "changed": "change", "removed": "delete"}

# Export and import need all of them: a file has all kinds, and an import's differences reveal entries.
SEEN: Final = tuple(f"mcp_app.view_{model}" for model in _MODEL_OF.values())
CHANGED: Final = tuple(f"mcp_app.{verb}_{model}" for model in _MODEL_OF.values() for verb in _VERBS.values())


def needed(differences: Iterable[Difference]) -> list[str]:
    """Return the permissions that an import's changes need, without duplicates."""
    verbs = ((_VERBS[each.action], _MODEL_OF[each.kind]) for each in differences)
    named = sorted({f"mcp_app.{verb}_{model}" for verb, model in verbs})
    # Clients see an import at once, so it needs the permission to publish.
    return [*named, PUBLISH] if named else []
