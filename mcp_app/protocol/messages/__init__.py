"""Parts of messages on every transport: JSON-RPC, ``_meta``, names, cursors, progress."""
