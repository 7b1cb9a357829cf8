"""What stands around messages on HTTP: header fields, events of a stream, allowed origins."""
