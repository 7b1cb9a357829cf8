"""HTTP tools beside another server of the same OpenAPI document."""
