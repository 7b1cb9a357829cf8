"""Orders of the shop."""

from django.conf import settings
from django.db import models


class Order(models.Model):
    """One order."""

    customer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    product = models.CharField(max_length=100)
    year = models.PositiveIntegerField()
