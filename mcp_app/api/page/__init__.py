"""The page that documents the API and sends requests to it."""
