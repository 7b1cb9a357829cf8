"""The deployable project: settings, URLs, servers and the supervisor; wiring only, no protocol.

Whatever runs here, a command and a shell too, hands jobs to the Celery of this project: so it is made first.
"""

import gc

# What is loaded is hardly garbage, and a request leaves hardly any cycles behind. The defaults look for them
# thousands of times during a start, which takes a tenth of its time, and several times in each millisecond
# later on.
gc.set_threshold(20_000, 20, 20)

from mcpsite.celery import app as celery_app  # noqa: E402

__all__ = ("celery_app",)
