"""An app for clients that use every feature that the demo lacks."""
