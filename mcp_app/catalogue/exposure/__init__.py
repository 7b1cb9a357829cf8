"""Exposure of a project's existing code as tools: Celery tasks, REST framework viewsets and models."""
