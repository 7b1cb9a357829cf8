"""Outbound: the only package that opens connections to places named by someone else.

It knows nothing of MCP, tools, users or storage. ``fetch`` is the one entry. ``own_site`` beside it is
for the doctor alone, and reaches no place but this installation's own address, which its operator names.
"""

from mcp_app.egress.client import Fetched, Sent, fetch
from mcp_app.egress.policy import EgressError, EgressFailed, EgressRefused, Network, Policy
from mcp_app.egress.target import Resolve

__all__ = [
    "EgressError",
    "EgressFailed",
    "EgressRefused",
    "Fetched",
    "Network",
    "Policy",
    "Resolve",
    "Sent",
    "fetch",
]
