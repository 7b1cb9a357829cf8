"""A read-only examination of an installation. Every fault is reported with its remedy.

Commands call ``examine`` with an ``Installation``, and pages call ``examine_alone``. The checks do not depend
on where their findings are shown.
"""

from mcp_app.doctor.examination import AREAS, Busy, examine, examine_alone
from mcp_app.doctor.finding import Finding, Level
from mcp_app.doctor.installation import Installation

__all__ = ["AREAS", "Busy", "Finding", "Installation", "Level", "examine", "examine_alone"]
