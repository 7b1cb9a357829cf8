"""Tools that return the permissions of their caller."""
