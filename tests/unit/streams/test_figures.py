"""The contract of the figures, in memory."""

from tests.streams_contract.figures import *  # noqa: F403
