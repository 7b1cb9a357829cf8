"""The project with the querying app, for a client with a thousand concurrent calls."""

import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import DATABASES, INSTALLED_APPS
from mcpsite.settings import MCP as _MCP

INSTALLED_APPS = [*INSTALLED_APPS, "tests.process.querying_app.apps.QueryingConfig"]
# One JSON body for each call, however long it waits for a thread.
MCP = {**_MCP, "MAX_RUNNING_CALLS_PER_PRINCIPAL": 1_000, "GRACE_SECONDS": 60.0}
# Required by Django behind a transaction pooler.
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = "POOLED" in os.environ
# A Django request would be one transaction; a tool call is not.
DATABASES["default"]["ATOMIC_REQUESTS"] = True
