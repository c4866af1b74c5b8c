"""The program that runs plugins written as Python classes or functions, inside their cage."""
