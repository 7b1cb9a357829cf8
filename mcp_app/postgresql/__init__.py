"""Django's PostgreSQL backend, extended so that waits end if the server is unresponsive."""
