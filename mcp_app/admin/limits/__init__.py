"""Admin pages of limits."""
