"""A check that this server can fetch the keys of the identity provider."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mcp_app import optional_parts
from mcp_app.auth.own_addresses import names_provider
from mcp_app.doctor.finding import Finding, error, ok, skipped
from mcp_app.doctor.installation import Installation

REMEDY = "Compare OAUTH_ISSUER with what the provider calls itself. EGRESS_ALLOW must name a private network."


def keys(_: Installation) -> Iterator[Finding]:
    """Check that the provider's keys can be fetched. Without them, no token can be verified."""
    if not names_provider():
        return
    if optional_parts.PROVIDER.missing():
        yield skipped("provider.keys", "PyJWT is not installed", optional_parts.PROVIDER.remedy())
        return
    # Imported here, because the libraries are installed only if a provider is used.
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
