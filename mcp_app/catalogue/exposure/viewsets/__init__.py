"""Actions of REST framework viewsets as tools. Only this package and the API need the framework."""
