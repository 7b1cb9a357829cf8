"""The Streamable HTTP transport: one endpoint, a few files by what they own."""
