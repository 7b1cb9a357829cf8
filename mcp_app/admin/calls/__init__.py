"""Admin pages of background calls: the list, a single call, approvals and queues."""
