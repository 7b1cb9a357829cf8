"""Actions of viewsets of REST framework as tools: the one place beside the API that knows the framework."""
