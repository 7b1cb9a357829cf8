"""The contract of the stores, in memory."""

from tests.streams_contract.stores import *  # noqa: F403
