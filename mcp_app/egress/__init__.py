"""Outbound requests. Only this package connects to addresses that callers or other servers supply.

The package does not use MCP, tools, users or storage. ``fetch`` reads an address over a new connection.
``exchange`` sends requests with credentials over kept connections. ``self_check`` is for the doctor only. It
connects only to this installation's own address, which the operator configures.
"""

from mcp_app.egress.answer import Answer
from mcp_app.egress.client import Fetched, Sent, fetch
from mcp_app.egress.exchange import Request, Secrets, exchange
from mcp_app.egress.policy import EgressError, EgressFailed, EgressRefused, Network, Policy
from mcp_app.egress.target import Resolve

__all__ = [
    "Answer",
    "EgressError",
    "EgressFailed",
    "EgressRefused",
    "Fetched",
    "Network",
    "Policy",
    "Request",
    "Resolve",
    "Secrets",
    "Sent",
    "exchange",
    "fetch",
]
