"""The project's user."""

import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models


class People(BaseUserManager):
    """Creates users."""

    def create_user(self, email, password=None, **more):
        """Create a user."""
        person = self.model(email=self.normalize_email(email), **more)
        person.set_password(password)
        person.save()
        return person

    def create_superuser(self, email, password=None, **more):
        """Create a user with every permission."""
        return self.create_user(email, password, is_staff=True, is_superuser=True, **more)


class Person(AbstractBaseUser, PermissionsMixin):
    """A user without a username, with a non-integer key."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    email = models.EmailField(unique=True)
    is_staff = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    objects = People()
    USERNAME_FIELD = "email"
