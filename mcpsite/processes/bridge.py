"""The process of the bridge under the supervisor, with heartbeats. It loads no apps."""

from __future__ import annotations

import asyncio
import os

from django.conf import settings

from mcp_app import conf
from mcp_app.bridge.service import SocketInUse, serve
from mcp_app.observability.logs import PROCESS
from mcpsite import environment
from mcpsite.supervised import signs_of_life


def main() -> None:
    """Serve the commands of the settings until a stop request."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")
    os.environ.setdefault(PROCESS, "upstreams")
    from django.utils.log import configure_logging

    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
    asyncio.run(serve(conf.get(), signs_of_life.give))


if __name__ == "__main__":
    try:
        main()
    except (environment.WrongSettings, SocketInUse) as wrong:
        raise SystemExit(str(wrong)) from None
