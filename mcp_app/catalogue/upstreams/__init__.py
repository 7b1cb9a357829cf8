"""Upstream servers in the database: adding, listing their tools, importing and approving changes."""
