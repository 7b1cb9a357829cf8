"""The formats of messages for optional features: elicitation, sampling, subscriptions and tasks."""
