"""Background calls outside their worker: accepting, following, cancelling and recovering them."""
