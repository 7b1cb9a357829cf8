"""The contract of the account of kept streams, in memory."""

from tests.streams_contract.storage_quota import *  # noqa: F403
