"""Outbound: the only package that opens connections to places named by someone else.

It knows nothing of MCP, tools, users or storage. ``fetch`` is the one entry.
"""

from mcp_app.egress.client import Fetched, fetch
from mcp_app.egress.policy import EgressError, EgressFailed, EgressRefused, Network, Policy
from mcp_app.egress.target import Resolve

__all__ = ["EgressError", "EgressFailed", "EgressRefused", "Fetched", "Network", "Policy", "Resolve", "fetch"]
