"""External identity providers: keys, tokens, and the mapping of their people to users."""
