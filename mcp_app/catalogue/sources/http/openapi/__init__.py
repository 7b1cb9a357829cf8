"""OpenAPI and Swagger documents: reading, survey, and conversion to HTTP tools. Pure functions."""
