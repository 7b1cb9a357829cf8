"""Requests of known clients, from their documentation, source or users: one entry each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Known:
    """A client: ``said`` is its registration, ``redirect_uri`` is used later, ``keeps`` are stored."""

    name: str
    said: dict[str, Any]
    redirect_uri: str
    scope: str | None = "mcp mcp:tools mcp:resources mcp:prompts"
    keeps: int = 1
    more: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


OPENCODE = "http://127.0.0.1:19876/mcp/oauth/callback"
_CODE = {"grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"]}
_PUBLIC = {**_CODE, "token_endpoint_auth_method": "none"}

# Clients that publish a document instead: its address, its content, the requested address.
PUBLISHED = (
    (
        "C1 Claude",
        "https://claude.ai/oauth/mcp-oauth-client-metadata",
        ["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
        "https://claude.ai/api/mcp/auth_callback",
    ),
    (
        "C2 Claude Code",
        "https://claude.ai/oauth/claude-code-client-metadata",
        ["http://localhost/callback", "http://127.0.0.1/callback"],
        "http://localhost:3118/callback",
    ),
    (
        "C4 VS Code",
        "https://vscode.dev/oauth/client-metadata.json",
        [
            "https://insiders.vscode.dev/redirect",
            "https://vscode.dev/redirect",
            "http://127.0.0.1/",
            "http://127.0.0.1:33418/",
        ],
        "http://127.0.0.1:33418/",
    ),
)

KNOWN = (
    Known(
        "C1 Claude",
        {
            "client_name": "Claude",
            "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
            **_CODE,
            "token_endpoint_auth_method": "client_secret_post",
            "scope": "mcp mcp:tools",
        },
        "https://claude.ai/api/mcp/auth_callback",
        scope="mcp mcp:tools mcp:resources mcp:prompts mcp:admin offline_access",
    ),
    Known(
        "C2 Claude Code",
        {"client_name": "Claude Code (mcp)", "redirect_uris": ["http://localhost:3118/callback"], **_PUBLIC},
        "http://localhost:52011/callback",
        scope="mcp mcp:tools offline_access",
    ),
    Known(
        "C3 ChatGPT",
        {
            "client_name": "ChatGPT",
            "redirect_uris": ["https://chatgpt.com/connector/oauth/AbC-123"],
            **_PUBLIC,
        },
        "https://chatgpt.com/connector/oauth/AbC-123",
    ),
    Known(
        "C4 VS Code",
        {
            "client_name": "Visual Studio Code",
            "client_uri": "https://code.visualstudio.com",
            "redirect_uris": [
                "https://insiders.vscode.dev/redirect",
                "https://vscode.dev/redirect",
                "http://127.0.0.1/",
                "http://127.0.0.1:33418/",
            ],
            **_PUBLIC,
            "application_type": "native",
        },
        "http://127.0.0.1:40021/",
        keeps=4,
    ),
    Known(
        "C5 Cursor",
        {
            "client_name": "Cursor",
            "redirect_uris": [
                "cursor://anysphere.cursor-mcp/oauth/callback",
                "https://www.cursor.com/agents/mcp/oauth/callback",
                "http://localhost:8787/callback",
            ],
            **_PUBLIC,
        },
        "cursor://anysphere.cursor-mcp/oauth/callback",
        keeps=3,
    ),
    Known(
        "C6 Inspector",
        {
            "client_name": "MCP Inspector",
            "redirect_uris": ["http://localhost:6274/oauth/callback"],
            **_PUBLIC,
            "client_uri": "https://github.com/modelcontextprotocol/inspector",
        },
        "http://localhost:6274/oauth/callback",
    ),
    Known(
        "C7 mcp-remote",
        {
            "client_name": "MCP CLI Proxy",
            "redirect_uris": ["http://localhost:19473/oauth/callback"],
            **_PUBLIC,
            "software_id": "2e6dc280-f3c3-4e01-99a7-8181dbd1d23d",
            "software_version": "0.1.29",
        },
        "http://localhost:19473/oauth/callback",
        scope="openid email profile",
    ),
    Known(
        "C8 Codex",
        {"client_name": "Codex", "redirect_uris": ["http://127.0.0.1:1455/callback/Zm9vYmFyYmF6"], **_PUBLIC},
        "http://127.0.0.1:41999/callback/Zm9vYmFyYmF6",
        scope=None,
    ),
    Known(
        "C9 Copilot CLI",
        {"client_name": "GitHub Copilot CLI", "redirect_uris": ["http://127.0.0.1:49152/"], **_PUBLIC},
        "http://127.0.0.1:50001/",
    ),
    Known(
        "C10 Gemini CLI",
        {"client_name": "Gemini CLI", "redirect_uris": ["http://localhost:7777/oauth/callback"], **_PUBLIC},
        "http://localhost:7777/oauth/callback",
    ),
    Known(
        "C11 Python SDK",
        {
            "client_name": "Python",
            "redirect_uris": ["http://localhost:3030/callback"],
            **_CODE,
            "token_endpoint_auth_method": "client_secret_basic",
        },
        "http://localhost:3030/callback",
    ),
    Known(
        "C12 TypeScript SDK, with a grant that is not served",
        {
            "client_name": "TypeScript",
            "redirect_uris": ["http://localhost:8090/callback", "myapp://callback"],
            "grant_types": [*_CODE["grant_types"], "urn:ietf:params:oauth:grant-type:device_code"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        },
        "http://localhost:8090/callback",
    ),
    Known(
        "C13 opencode",
        {
            "client_name": "OpenCode",
            "redirect_uris": [OPENCODE],
            **_PUBLIC,
        },
        OPENCODE,
    ),
    Known(
        "C13 n8n",
        {"client_name": "n8n", "redirect_uris": ["https://oauth.n8n.cloud/oauth2/callback"], **_PUBLIC},
        "https://oauth.n8n.cloud/oauth2/callback",
    ),
)
