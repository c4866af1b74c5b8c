"""Tokens: a word that says what they are, and 256 bits of chance. Only their hash is kept."""

from __future__ import annotations

import hashlib
from base64 import b32encode

from paddock.core.clock import Random
from paddock.core.secret import Secret

_CHANCE = 32  # bytes


def new_token(begin: str, random: Random) -> Secret:
    """A token that nobody can guess, and that can be shown once."""
    return Secret(f"{begin}_{b32encode(random.bytes(_CHANCE)).decode().lower().rstrip('=')}")


def hash_of_token(token: str) -> str:
    """What is kept of it. It needs no salt: nobody can try that many."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
