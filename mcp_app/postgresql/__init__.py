"""Django's PostgreSQL backend, whose waits end when the server says nothing any more."""
