"""Read-only examination of an installation; every fault comes with its remedy.

Commands use ``examine`` with an ``Installation``, pages use ``examine_alone``. Checks do not depend on where
their findings are displayed.
"""

from mcp_app.doctor.examination import AREAS, Busy, examine, examine_alone
from mcp_app.doctor.finding import Finding, Level
from mcp_app.doctor.installation import Installation

__all__ = ["AREAS", "Busy", "Finding", "Installation", "Level", "examine", "examine_alone"]
