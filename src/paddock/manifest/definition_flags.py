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


FLAG_TEXT = {
    DefinitionFlag.HIDDEN_CHARACTERS: "has invisible characters that a model reads",
    DefinitionFlag.HIDDEN_TEXT: "has hidden text: in a comment, far to the right, or far below",
    DefinitionFlag.HIDDEN_INSTRUCTIONS: "gives orders to a model, as one does who does not want people to notice",
    DefinitionFlag.ENCODED_TEXT: "has text in a code that people cannot read",
    DefinitionFlag.NAMES_CREDENTIALS: "speaks of places where keys and passwords lie",
    DefinitionFlag.SIDE_CHANNEL: "takes a parameter through which a conversation could be carried off",
    DefinitionFlag.SHADOWING: "speaks of another plugin or its tools",
    DefinitionFlag.SAME_NAME: "has the name of another plugin's tool",
    DefinitionFlag.LOOK_ALIKE: "has a name that can be taken for another's",
    DefinitionFlag.CONTRADICTION: "says of itself what does not fit together",
}
