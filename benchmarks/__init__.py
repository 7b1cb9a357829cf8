"""Measurements of the server as ratios, against the official SDKs and a bare ASGI application."""
