"""The contract of the log, in memory."""

from tests.streams_contract.log import *  # noqa: F403
