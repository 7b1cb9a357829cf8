"""Admin pages of users from an identity provider, and of the provider's state."""
