"""The contract of the stores, on Redis."""

from tests.streams_contract.stores import *  # noqa: F403
