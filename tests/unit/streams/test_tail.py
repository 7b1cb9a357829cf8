"""The contract of the tail, in memory."""

from tests.streams_contract.tail import *  # noqa: F403
