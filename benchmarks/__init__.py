"""Measurements of the server as ratios, against the official Python SDK and a bare ASGI application."""
