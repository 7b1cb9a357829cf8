"""Limits on calls in the API."""
