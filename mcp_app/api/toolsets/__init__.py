"""Toolsets in the API."""
