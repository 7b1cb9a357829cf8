"""Common kinds of tools over sockets, compared with bare applications that do the same work."""
