"""Bytes in, bytes out: the HTTP side of the protocol."""
