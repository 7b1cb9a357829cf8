"""The deployable project: settings, URLs, servers and the supervisor; no protocol code.

All processes, including commands and shells, enqueue jobs with this project's Celery, so it is created here.
"""

import gc

# Little of the loaded code becomes garbage, and requests create few cycles. With the default thresholds,
# garbage collection runs thousands of times and takes about a tenth of the start.
gc.set_threshold(20_000, 20, 20)

from mcpsite.celery import app as celery_app  # noqa: E402

__all__ = ("celery_app",)
