"""Agent Skills over MCP: folders with a SKILL.md, by resources and an extension of the protocol."""
