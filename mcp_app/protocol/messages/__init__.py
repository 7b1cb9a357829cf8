"""The parts of messages that all transports share: JSON-RPC, ``_meta``, names, cursors, progress."""
