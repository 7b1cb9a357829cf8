"""Measurements of the server as ratios to the official SDKs and a bare ASGI application."""
