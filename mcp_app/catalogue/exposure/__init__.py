"""Offers what a project already has as tools: Celery tasks, viewsets of REST framework, models."""
