"""Message shapes of features that clients declare: elicitation, sampling, subscriptions, tasks."""
