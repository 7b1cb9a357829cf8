"""A task unrelated to MCP."""

from celery import shared_task


@shared_task
def remind(order):
    """Remind a customer."""
    return f"order {order}"
