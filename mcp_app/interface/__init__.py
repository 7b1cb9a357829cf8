"""Shared by admin, console and API: safe display of text, links, summaries."""
