"""The identity provider: check that this server can fetch its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mcp_app import optional_parts
from mcp_app.auth.own_addresses import names_provider
from mcp_app.doctor.finding import Finding, error, ok, skipped
from mcp_app.doctor.installation import Installation

REMEDY = "Compare OAUTH_ISSUER with what the provider calls itself. EGRESS_ALLOW must name a private network."


def keys(_: Installation) -> Iterator[Finding]:
    """Check the provider's keys, without which no token can be verified."""
    if not names_provider():
        return
    if optional_parts.PROVIDER.missing():
        yield skipped("provider.keys", "PyJWT is not installed", optional_parts.PROVIDER.remedy())
        return
    # Imported late: the libraries are only installed with a provider.
    from mcp_app.auth.identity_provider.keys import usable
    from mcp_app.auth.identity_provider.metadata import KeysAway, configured, fetch_keys

    provider = configured()
    try:
        found = usable(asyncio.run(fetch_keys(provider)))
    except KeysAway as away:
        yield error("provider.keys", str(away), REMEDY)
    else:
        yield ok("provider.keys", f"usable keys of {provider.issuer}: {len(found)}")


CHECKS = (keys,)
