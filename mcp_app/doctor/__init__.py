"""Looks at an installation as its operator would; every fault comes with its remedy, nothing is changed.

For commands ``examine`` with an ``Installation``, for pages ``examine_alone``. Checks do not know
where their findings are shown.
"""

from mcp_app.doctor.examination import AREAS, Busy, examine, examine_alone
from mcp_app.doctor.finding import Finding, Level
from mcp_app.doctor.installation import Installation

__all__ = ["AREAS", "Busy", "Finding", "Installation", "Level", "examine", "examine_alone"]
