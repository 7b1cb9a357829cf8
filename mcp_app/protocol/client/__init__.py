"""The client half of the protocol: requests to other MCP servers and their answers, without I/O."""
