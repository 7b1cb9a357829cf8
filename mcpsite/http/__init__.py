"""HTTP below Django and the app: bounds on connections and bodies, and the fast path for quick requests."""
