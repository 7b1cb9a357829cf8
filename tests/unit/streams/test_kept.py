"""The contract of the account of kept streams, in memory."""

from tests.streams_contract.kept import *  # noqa: F403
