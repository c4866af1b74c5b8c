"""What a plugin from a package registry needs to run: pinned before a person agrees, built after, shared, and removed.

A *lock* names every package with its version and hash. It is resolved without running any code of those packages, it
stands in the plugin's package (or, for an author's `requirements.txt`, in a row beside it), and it is all that an
*environment* is made from. An environment is a directory of this machine, found by the digest of its lock.
"""
