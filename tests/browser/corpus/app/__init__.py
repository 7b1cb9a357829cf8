"""Entries whose every text is hostile."""
