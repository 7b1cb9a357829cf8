"""The snapshot of the catalogue that this process serves, and how it is loaded and replaced."""
