"""The HTTP side of the protocol: header fields, events of a stream, allowed hosts and origins."""
