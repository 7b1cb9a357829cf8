"""Transfer of catalogue entries between installations as a file: export, comparison and import.

Commands, the admin and any API use ``export_catalogue`` and ``import_catalogue``.
"""

from mcp_app.catalogue.transfer.exports import export_catalogue
from mcp_app.catalogue.transfer.imports import (
    CatalogueMoved,
    Imported,
    ImportForbidden,
    import_catalogue,
)
from mcp_app.catalogue.transfer.notation import MAX_BYTES, NOTATIONS, notation_of
from mcp_app.catalogue.transfer.plan import Difference, FieldDifference
from mcp_app.catalogue.transfer.problems import Problem, TransferRefused

__all__ = [
    "MAX_BYTES",
    "NOTATIONS",
    "CatalogueMoved",
    "Difference",
    "FieldDifference",
    "ImportForbidden",
    "Imported",
    "Problem",
    "TransferRefused",
    "export_catalogue",
    "import_catalogue",
    "notation_of",
]
