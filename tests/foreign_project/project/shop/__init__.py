"""Products and orders."""
