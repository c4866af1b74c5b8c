"""Texts and names as a hasty reader takes them: letters that look alike become one. Pure.

A small part of Unicode's table of confusables (UTS 39), of what stands for letters and digits of Latin. Names of tools
are plain ASCII anyway; titles and texts are not.
"""

from __future__ import annotations

import re
import unicodedata

from paddock.plugins.tool_pinning.invisible_text import strip_invisible

_CYRILLIC = dict(zip("АВЕЅІЈКМНОРСТУХаеѕіјорсухԁԛԝһӏв", "ABESIJKMHOPCTYXaesijopcyxdqwhlb", strict=True))
_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαινυρ", "ABEZHIKMNOPTYXoaivup", strict=True))
_APPROXIMATE = dict(
    zip("кмтпгшѡεκτηγωѵհոսօցեյզ", "kmtnrwwektnywvhnuogejq", strict=True)
)  # in a word, not by themselves
_LATIN = dict(zip("ıɑɡɩⅼⅰⅴⅹøłđħŧ", "iagilivxoldht", strict=True))
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True))
_ENCLOSED_LETTERS = {  # letters in a circle, in a square, and those that flags are made of
    chr(first + at): chr(ord("a") + at) for first in (0x1F150, 0x1F170, 0x1F1E6) for at in range(26)
}
CONFUSABLE_LETTERS = _CYRILLIC | _GREEK  # letters of other scripts that pass for Latin ones
_TO_LATIN = str.maketrans(CONFUSABLE_LETTERS | _APPROXIMATE | _LATIN | _SMALL_CAPITALS | _ENCLOSED_LETTERS)
_COMBINING_CATEGORIES = frozenset({"Mn", "Me"})  # accents, strokes, rings: what is drawn over a letter
_SEPARATORS = re.compile(r"[-_./\s]+")
_LOOKALIKE_CHARACTERS = str.maketrans("10i5", "lols")  # what the eye takes for another


def fold_confusables(text: str) -> str:
    """A text without what hides in it, in plain letters where others stand for them, with single spaces."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", strip_invisible(text)).translate(_TO_LATIN)
        text = "".join(letter for letter in apart if unicodedata.category(letter) not in _COMBINING_CATEGORIES)
    return " ".join(text.split())


def name_skeleton(name: str) -> str:
    """A name without what the eye skips over: separators, case, and letters that look like others."""
    plain = _SEPARATORS.sub("", fold_confusables(name).lower()).replace("rn", "m").replace("vv", "w")
    return plain.translate(_LOOKALIKE_CHARACTERS)


def find_mixed_script_word(text: str) -> str:
    """The first word in which letters of another script pass for Latin ones among Latin ones; empty where none does."""
    if text.isascii():
        return ""
    for word in re.findall(r"\w+", text):
        if any(letter in CONFUSABLE_LETTERS for letter in word) and any(
            letter.isascii() and letter.isalpha() for letter in word
        ):
            return word
    return ""
