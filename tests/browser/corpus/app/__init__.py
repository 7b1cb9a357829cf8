"""Entries whose every word is hostile."""
