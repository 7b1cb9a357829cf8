"""The contract of the reader, on Redis."""

from tests.streams_contract.reader import *  # noqa: F403
