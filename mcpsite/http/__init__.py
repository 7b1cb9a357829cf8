"""HTTP below Django and the app: bounds on connections and bodies, and the short cut for quick requests."""
