"""Deviations of early clients. Each has a switch, is accepted in the legacy era only, and is never sent.

In the published legacy revisions, none of these has another meaning. The modern era is not affected.
"""

from __future__ import annotations

from typing import Final

# The values of the setting DIALECTS. Some are the names of notifications that early clients send.
INITIALIZED: Final = "initialized"
EXIT: Final = "exit"
CANCEL_REQUEST: Final = "$/cancelRequest"
MISSING_VERSION: Final = "missing-version"
MISSING_ACCEPT: Final = "missing-accept"
SINGLE_ACCEPT: Final = "single-accept"
CONTENT_LENGTH: Final = "content-length"
EARLY_ADDRESS: Final = "early-address"
ALL: Final = (
    INITIALIZED,
    EXIT,
    CANCEL_REQUEST,
    MISSING_VERSION,
    MISSING_ACCEPT,
    SINGLE_ACCEPT,
    CONTENT_LENGTH,
    EARLY_ADDRESS,
)

# The values of the setting ROUTING_HEADERS: how strictly ``interim_headers`` checks the headers.
OFF: Final = "off"
PRESENT: Final = "present"
STRICT: Final = "strict"
ROUTING: Final = (OFF, PRESENT, STRICT)
