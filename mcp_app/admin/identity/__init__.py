"""The people of an identity provider, and how the provider is."""
