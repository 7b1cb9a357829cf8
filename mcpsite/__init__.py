"""The project that can be deployed: settings, URLs, servers and the supervisor. It has no protocol code.

All processes, including commands and shells, queue jobs through this project's Celery application.
Therefore the application is created here.
"""

import gc

# Little of the loaded code becomes garbage, and requests create few cycles. With the default thresholds,
# garbage collection would run thousands of times and take about a tenth of the start.
gc.set_threshold(20_000, 20, 20)

from mcpsite.celery import app as celery_app  # noqa: E402

__all__ = ("celery_app",)
