"""Machines: programs that log in as themselves.

Administrators enter them, each with a service user (AUTH-51).
"""
