"""The project's own API."""

from rest_framework import serializers, viewsets

from shop.models import Order


class OrderSerializer(serializers.ModelSerializer):
    """An order."""

    class Meta:
        """All of it."""

        model = Order
        fields = ["id", "product", "year"]


class OrderViewSet(viewsets.ReadOnlyModelViewSet):
    """The orders of who asks."""

    queryset = Order.objects.all()
    serializer_class = OrderSerializer

    def get_queryset(self):
        """Not those of others."""
        return super().get_queryset().filter(customer=self.request.user)
