"""The apps that an installation adds in MCP_APPS without changing this project."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from mcpsite.environment import REMEDIES, Environment, WrongSettings
from mcpsite.processes.own_code import wait_for_permission


def own_apps(environment: Environment) -> list[str]:
    """Return the apps to install, and add their folder to Python's path. Raise WrongSettings."""
    folder = environment.mcp_apps_path
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    for name in environment.mcp_apps:
        if find_spec(name.partition(".")[0]) is None:
            remedy = f"Set it to {REMEDIES['MCP_APPS']}."
            raise WrongSettings(f"Wrong setting: MCP_APPS has {name!r}, which Python does not find. {remedy}")
    wait_for_permission(environment)
    return list(environment.mcp_apps)
