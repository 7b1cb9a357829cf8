"""A second factor beside the password, at every login: codes of an authenticator app (RFC 6238)."""
