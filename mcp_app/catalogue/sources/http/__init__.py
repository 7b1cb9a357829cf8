"""HTTP tools: requests that are described in the catalogue instead of in code."""
