"""Bytes beside the messages: two pipes that a plugin process was started with, and the transfers on them."""
