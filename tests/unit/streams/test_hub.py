"""The contract of the hub, in memory."""

from tests.streams_contract.hub import *  # noqa: F403
