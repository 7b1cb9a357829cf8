"""Entries whose code crashes."""
