"""Pages of what passes between clients and the server: sessions and messages."""
