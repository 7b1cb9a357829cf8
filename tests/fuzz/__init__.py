"""Hostile bytes against a live server: random and mutated bodies and headers."""
