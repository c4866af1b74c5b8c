"""Folds look-alike characters, so that texts and names compare as a hasty reader sees them. Pure.

A small part of Unicode's table of confusables (UTS 39), for Latin letters and digits. Tool names are plain ASCII
anyway; titles and texts are not.
"""

from __future__ import annotations

import re
import unicodedata

from paddock.plugins.tool_pinning.invisible_text import strip_invisible

_CYRILLIC = dict(zip("АВЕЅІЈКМНОРСТУХаеѕіјорсухԁԛԝһӏв", "ABESIJKMHOPCTYXaesijopcyxdqwhlb", strict=True))
_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαινυρ", "ABEZHIKMNOPTYXoaivup", strict=True))
# Similar within a word, not by themselves.
_APPROXIMATE = dict(zip("кмтпгшѡεκτηγωѵհոսօցեյզ", "kmtnrwwektnywvhnuogejq", strict=True))
_LATIN = dict(zip("ıɑɡɩⅼⅰⅴⅹøłđħŧ", "iagilivxoldht", strict=True))
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True))
_ENCLOSED_LETTERS = {  # circled and squared letters, and regional indicators
    chr(first + at): chr(ord("a") + at) for first in (0x1F150, 0x1F170, 0x1F1E6) for at in range(26)
}
CONFUSABLE_LETTERS = _CYRILLIC | _GREEK  # of other scripts, indistinguishable from Latin
_TO_LATIN = str.maketrans(CONFUSABLE_LETTERS | _APPROXIMATE | _LATIN | _SMALL_CAPITALS | _ENCLOSED_LETTERS)
_COMBINING_CATEGORIES = frozenset({"Mn", "Me"})  # accents, strokes, rings
_SEPARATORS = re.compile(r"[-_./\s]+")
_LOOKALIKE_CHARACTERS = str.maketrans("10i5", "lols")  # easily mistaken for each other


def fold_confusables(text: str) -> str:
    """Return a text without invisible characters, with look-alikes folded to Latin letters and single spaces."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", strip_invisible(text)).translate(_TO_LATIN)
        text = "".join(letter for letter in decomposed if unicodedata.category(letter) not in _COMBINING_CATEGORIES)
    return " ".join(text.split())


def name_skeleton(name: str) -> str:
    """Return a name without what the eye skips over: separators, case, and look-alike letters."""
    plain = _SEPARATORS.sub("", fold_confusables(name).lower()).replace("rn", "m").replace("vv", "w")
    return plain.translate(_LOOKALIKE_CHARACTERS)


def find_mixed_script_word(text: str) -> str:
    """Return the first word in which look-alike letters of another script stand among Latin ones; else an
    empty string."""
    if text.isascii():
        return ""
    for word in re.findall(r"\w+", text):
        if any(letter in CONFUSABLE_LETTERS for letter in word) and any(
            letter.isascii() and letter.isalpha() for letter in word
        ):
            return word
    return ""
