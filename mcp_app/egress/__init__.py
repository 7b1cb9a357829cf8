"""Outbound requests: the only package that connects to addresses from other parties.

It is independent of MCP, tools, users and storage. ``fetch`` is the entry point. ``own_site`` is for the
doctor only, and connects only to this installation's own address, which its operator names.
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
