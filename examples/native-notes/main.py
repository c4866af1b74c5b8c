"""The three tools of the notes, and the settings that shape their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias, TypedDict

from note_table import Note, NoteTable

from paddock_sdk import ConfigInvalid, JsonObject, Plugin

plugin = Plugin("native-notes", "1.0.0")
notes = NoteTable(plugin.storage)

Tag: TypeAlias = Annotated[str, {"pattern": "^[a-z0-9][a-z0-9-]{0,39}$"}]


class Added(TypedDict):
    id: str


class Notes(TypedDict):
    notes: list[Note]


@plugin.on_config
def check(config: JsonObject) -> None:
    size = config.get("page_size", 20)
    if not isinstance(size, int) or not 1 <= size <= 100:
        raise ConfigInvalid("page_size must be a whole number from 1 to 100")
    if config.get("order", "newest") not in ("newest", "oldest"):
        raise ConfigInvalid("order must be newest or oldest")


@plugin.tool
def add_note(
    text: Annotated[str, {"minLength": 1, "maxLength": 10000}],
    tags: Annotated[Sequence[Tag], {"maxItems": 20}] = (),
) -> Added:
    """Add a note."""
    added = notes.add(text, list(tags))
    plugin.log.info("kept a note", id=added)
    return {"id": added}


@plugin.tool
def list_notes(
    tag: Annotated[str, "Only notes with this tag"] = "",
    page: Annotated[int, {"minimum": 1, "maximum": 100000}] = 1,
) -> Notes:
    """List the notes, a page at a time."""
    size = int(plugin.config.get("page_size", 20))
    return {"notes": notes.page(tag, page, size, newest_first=_newest_first())}


@plugin.tool
def search_notes(text: Annotated[str, {"minLength": 1, "maxLength": 200}]) -> Notes:
    """Find the notes that contain a text."""
    return {"notes": notes.containing(text, newest_first=_newest_first())}


def _newest_first() -> bool:
    return plugin.config.get("order", "newest") == "newest"


if __name__ == "__main__":
    plugin.run()
