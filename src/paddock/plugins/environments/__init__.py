"""Environments of plugins from package registries: locked before consent, built after it, shared and swept.

A *lock* names every package with its version and hash. It is resolved without running any code of those packages. It
stands in the plugin's package (or, for an author's `requirements.txt`, in a row beside it), and an *environment* is
built from nothing else. An environment is a directory of this machine, found by the digest of its lock.
"""
