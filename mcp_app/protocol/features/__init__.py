"""Shapes of the features that clients declare: questions, subscriptions, tasks."""
