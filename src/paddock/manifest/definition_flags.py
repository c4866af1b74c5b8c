"""Flags: the closed list of suspicious properties of a plugin's texts. Policies and people use the same names.

A flag is a hint for a person, never a verdict: honest texts get some, and clever attacks get none.
"""

from __future__ import annotations

from enum import StrEnum


class DefinitionFlag(StrEnum):
    """A suspicious property of a definition."""

    HIDDEN_CHARACTERS = "hidden_characters"
    HIDDEN_TEXT = "hidden_text"
    HIDDEN_INSTRUCTIONS = "hidden_instructions"
    ENCODED_TEXT = "encoded_text"
    NAMES_CREDENTIALS = "names_credentials"
    SIDE_CHANNEL = "side_channel"
    SHADOWING = "shadowing"
    SAME_NAME = "same_name"
    LOOK_ALIKE = "look_alike"
    CONTRADICTION = "contradiction"
