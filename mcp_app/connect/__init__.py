"""Data that clients need to connect: the server's address and configurations to paste.

The package sends no queries to the database.
"""
