"""Connections of users to upstream servers: the login by OAuth, its end, and the page of the user."""
