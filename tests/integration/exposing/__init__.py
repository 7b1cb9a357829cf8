"""A shop whose viewsets and models are exposed as tools, compared with its HTTP API."""
