"""The contract of the reader, in memory."""

from tests.streams_contract.reader import *  # noqa: F403
