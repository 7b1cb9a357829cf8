"""Agent Skills over MCP: folders with a SKILL.md, as resources and by an extension of the protocol."""
