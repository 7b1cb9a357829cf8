"""What stands in messages of every transport: JSON-RPC, ``_meta``, names, cursors, progress."""
