"""The HTTP layer below Django and the app: limits for connections and bodies, and a fast path."""
