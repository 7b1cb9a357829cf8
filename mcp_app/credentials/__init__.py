"""Credentials for other servers: sealed secrets, their use in requests, and OAuth tokens of machines.

Tools refer to a credential by name. No function returns a stored secret except inside ``egress.Secrets``,
whose repr does not contain it.
"""
