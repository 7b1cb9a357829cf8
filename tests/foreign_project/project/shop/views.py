"""The project's own API."""

from rest_framework import mixins, serializers, viewsets

from shop.models import Order


class OrderSerializer(serializers.ModelSerializer):
    """An order."""

    class Meta:
        """All of it."""

        model = Order
        fields = ["id", "product", "year"]

    def get_fields(self):
        """Offer the products that were ordered before, which takes a query."""
        products = set(Order.objects.values_list("product", flat=True))
        return {**super().get_fields(), "product": serializers.ChoiceField(sorted({"Lamp", *products}))}


class OrderViewSet(mixins.CreateModelMixin, viewsets.ReadOnlyModelViewSet):
    """The orders of who asks."""

    queryset = Order.objects.all()
    serializer_class = OrderSerializer

    def get_queryset(self):
        """Not those of others."""
        return super().get_queryset().filter(customer=self.request.user).order_by("pk")

    def perform_create(self, serializer):
        """Order for oneself only."""
        serializer.save(customer=self.request.user)
