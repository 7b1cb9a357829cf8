"""A second factor after the password, at every login: codes of an authenticator app (RFC 6238)."""
