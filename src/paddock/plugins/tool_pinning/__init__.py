"""Tool pinning: the definitions that servers list, compared with those that people accepted.

A server may describe a tool harmlessly today and maliciously tomorrow, and models believe what they read. So every
definition is pinned as received; one that changes is quarantined until a person has seen the difference.
"""
