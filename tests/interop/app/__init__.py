"""An application for clients that try every feature: what the demo lacks for that."""
