"""Transports: Streamable HTTP, HTTP+SSE, stdio, and the metrics endpoint."""
