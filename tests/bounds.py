"""Time limits in tests: the promised limit plus the delay of a busy machine.

Benchmarks measure exact times.
"""

from __future__ import annotations

# Seconds that a machine with ten processes per core adds to any wait.
SLACK = 8.0

# Seconds that a test waits longer for what it needs, if it claims no time.
PATIENCE = 90.0
