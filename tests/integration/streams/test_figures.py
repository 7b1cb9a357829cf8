"""The contract of the figures, on Redis."""

from tests.streams_contract.figures import *  # noqa: F403
