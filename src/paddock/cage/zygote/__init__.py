"""The fast way to start a cage: a copy of a Python interpreter that is warm already becomes the plugin."""
