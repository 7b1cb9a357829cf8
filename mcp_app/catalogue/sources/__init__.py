"""Sources of entries: one interface, and one module or folder per source.

Only this package distinguishes sources. Forms, API, drafts, history, export and checks use the interface.
"""

from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.sources.content.source import CONTENT
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.catalogue.sources.lookup import SOURCES
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.catalogue.sources.upstream.source import UPSTREAM

SOURCES.extend([CODE, PRESET, CONTENT, HTTP, UPSTREAM])
