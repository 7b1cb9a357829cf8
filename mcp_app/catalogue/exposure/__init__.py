"""Existing code of a project as tools: Celery tasks, viewsets of REST framework, models."""
