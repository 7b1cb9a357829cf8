"""Callers on pages: users, API keys and OAuth clients with their traffic."""
