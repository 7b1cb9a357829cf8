"""The deployable project: settings, URLs, servers and the supervisor; wiring only, no protocol.

Whatever runs here, a command and a shell too, hands jobs to the Celery of this project: so it is made first.
"""

import gc

# Hardly anything that is loaded becomes garbage, and a request leaves hardly any cycles behind. With the
# default thresholds, Python looks for cycles thousands of times during a start: about a tenth of its time.
gc.set_threshold(20_000, 20, 20)

from mcpsite.celery import app as celery_app  # noqa: E402

__all__ = ("celery_app",)
