"""The Streamable HTTP transport: its endpoint, the two eras of the protocol, and event streams."""
