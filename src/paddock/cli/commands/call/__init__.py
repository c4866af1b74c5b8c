"""`paddock call …`: calls, and what is known of them."""
