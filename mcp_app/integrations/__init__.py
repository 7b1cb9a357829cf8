"""Classes that projects name in their settings, under paths that stay."""
