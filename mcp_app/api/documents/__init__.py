"""OpenAPI documents in the API."""
