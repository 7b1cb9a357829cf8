"""Admin pages of upstream servers."""
