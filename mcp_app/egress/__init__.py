"""Outbound requests. Only this package connects to addresses that callers or other servers supply.

The package does not use MCP, tools, users or storage. ``fetch`` is the entry point. ``self_check`` is for the
doctor only. It connects only to this installation's own address, which the operator configures.
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
