"""Data to connect a client: the server's address and configurations to paste. Makes no queries."""
