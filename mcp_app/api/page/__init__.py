"""The page that documents the API and can send requests to it."""
