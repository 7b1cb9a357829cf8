"""The REST API under ``/api/``: the functions of the admin for programs.

It uses the same services and permissions as the admin.
"""
