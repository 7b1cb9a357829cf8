"""Connections of users to upstream servers."""
