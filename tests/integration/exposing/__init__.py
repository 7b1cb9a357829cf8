"""A shop whose viewsets and models are offered as tools, compared with its HTTP API."""
