"""What servers say of themselves, held against what people accepted.

A server may describe a tool harmlessly today and otherwise tomorrow, and models believe what they read. So every
definition is pinned as it came; one that changes is kept from use until a person has seen the difference.
"""
