"""Pages of background calls: list, one call, approvals, queues."""
