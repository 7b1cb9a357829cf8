"""Deviations of early clients: accepted in the legacy era, each by its own switch, and never sent.

The published legacy revisions give none of these another meaning. Messages of the modern era are unaffected.
"""

from __future__ import annotations

from typing import Final

# The values of the setting DIALECTS. Some are names of notifications that early clients send.
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

# The values of the setting ROUTING_HEADERS: the check of the headers in ``interim_headers``.
OFF: Final = "off"
PRESENT: Final = "present"
STRICT: Final = "strict"
ROUTING: Final = (OFF, PRESENT, STRICT)
