"""Agent Skills over MCP: folders with a SKILL.md, served as resources and by a protocol extension."""
