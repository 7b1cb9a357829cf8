"""The contract of the log, on Redis."""

from tests.streams_contract.log import *  # noqa: F403
