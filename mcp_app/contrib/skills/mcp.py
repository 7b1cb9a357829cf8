"""Registration of this installation's skills at start."""

from __future__ import annotations

from mcp_app.contrib.skills import conf
from mcp_app.contrib.skills.folders import find
from mcp_app.contrib.skills.serving import Skills, offer

offer(Skills(find(conf.roots())))
