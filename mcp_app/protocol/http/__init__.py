"""HTTP around messages: header fields, events of a stream, allowed origins."""
