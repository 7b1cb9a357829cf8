"""Where entries come from: one interface, and one module or folder for each source.

Nothing outside of here compares a source: forms, API, drafts, history, export and checks ask it.
"""

from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.sources.content.source import CONTENT
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.catalogue.sources.registry import SOURCES
from mcp_app.catalogue.sources.upstream import UPSTREAM

SOURCES.extend([CODE, PRESET, CONTENT, UPSTREAM])
