"""The snapshot of the catalogue that this process serves, and its loading."""
