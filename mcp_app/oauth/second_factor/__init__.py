"""A second factor after the password at every login: codes from an authenticator app (RFC 6238)."""
