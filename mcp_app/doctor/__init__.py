"""Looks at an installation as its operator would; every fault comes with its remedy, nothing is changed.

For commands and pages: ``examine`` with an ``Installation``. Checks know nothing of who shows their findings.
"""

from mcp_app.doctor.examination import AREAS, examine
from mcp_app.doctor.finding import Finding, Level
from mcp_app.doctor.installation import Installation

__all__ = ["AREAS", "Finding", "Installation", "Level", "examine"]
