"""External identity providers: their keys and tokens, and the mapping of their users to Django users."""
