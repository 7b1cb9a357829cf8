"""Classes that projects refer to in their settings. Their import paths do not change."""
