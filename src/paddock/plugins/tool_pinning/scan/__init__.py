"""What may be odd about the words of a plugin, told to people and to the rules.

Models act on what they read in a definition. So texts are looked through for what has been found in poisoned ones:
orders to a model, text that is kept out of sight, names that pass for others. All of it is pure, and all of it is
hints: whoever knows the list can write around it, and an honest author may write what is on it.
"""
