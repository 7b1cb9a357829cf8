"""Admin pages of an identity provider and its users, and of credentials for other servers."""
