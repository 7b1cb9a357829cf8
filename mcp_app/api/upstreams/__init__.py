"""Upstream servers in the API."""
