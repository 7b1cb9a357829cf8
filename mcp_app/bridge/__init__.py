"""The bridge: a process that runs upstream servers over stdio and serves them over HTTP on a unix socket.

All other processes use it as they use servers over HTTP, with the same sessions, breakers and health. The
bridge uses no database and no Redis.
"""
