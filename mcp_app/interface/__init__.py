"""Shared by admin, console and API: safe display of text, marks, links, summaries."""
