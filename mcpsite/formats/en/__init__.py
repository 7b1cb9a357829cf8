"""Formats for English, the language of all pages."""
