"""The composition root: the one place that knows every concrete part and puts them together."""
