"""Django's PostgreSQL backend with waits that end when the server is unresponsive."""
