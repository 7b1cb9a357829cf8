"""Transports: Streamable HTTP, HTTP+SSE and stdio, and endpoints for health and metrics."""
