"""The contract of the hub, on Redis."""

from tests.streams_contract.hub import *  # noqa: F403
