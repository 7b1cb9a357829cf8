"""People of an identity provider, and the provider's state."""
