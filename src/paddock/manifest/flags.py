"""Flags: the closed list of what may be odd about the words of a plugin. Rules and people use the same words.

A flag is a hint for a person, never a verdict: honest texts get some, and a clever one gets none.
"""

from __future__ import annotations

from enum import StrEnum


class Flag(StrEnum):
    """What is odd about a definition."""

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


IN_WORDS = {
    Flag.HIDDEN_CHARACTERS: "has characters that a model reads and nobody sees",
    Flag.HIDDEN_TEXT: "has text where nobody looks: in a comment, far to the right, far below",
    Flag.HIDDEN_INSTRUCTIONS: "gives orders to a model, as one does who does not want people to notice",
    Flag.ENCODED_TEXT: "has text in a code that people cannot read",
    Flag.NAMES_CREDENTIALS: "speaks of places where keys and passwords lie",
    Flag.SIDE_CHANNEL: "takes a parameter through which a conversation could be carried off",
    Flag.SHADOWING: "speaks of another plugin or its tools",
    Flag.SAME_NAME: "has the name of another plugin's tool",
    Flag.LOOK_ALIKE: "has a name that can be taken for another's",
    Flag.CONTRADICTION: "says of itself what does not fit together",
}
