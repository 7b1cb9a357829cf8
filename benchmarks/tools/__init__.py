"""The kinds of tools that people write, over sockets, beside bare applications that do the same."""
