"""Actions of REST framework viewsets as tools; only this package and the API depend on the framework."""
