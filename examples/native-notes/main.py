"""The three tools of the notes, and the settings that shape their answers."""

from __future__ import annotations

from typing import Any, cast

from note_table import NoteTable

from paddock_sdk import ConfigInvalid, Context, InvalidParams, JsonObject, Plugin

plugin = Plugin("native-notes", "1.0.0", capabilities_used=["storage:write"])
notes = NoteTable(plugin.storage)


@plugin.on_config
def check(config: JsonObject) -> None:
    size = config.get("page_size", 20)
    if not isinstance(size, int) or not 1 <= size <= 100:
        raise ConfigInvalid("page_size must be a whole number from 1 to 100")
    if config.get("order", "newest") not in ("newest", "oldest"):
        raise ConfigInvalid("order must be newest or oldest")


@plugin.tool
def add_note(params: JsonObject, _context: Context) -> JsonObject:
    given: Any = params.get("tags", [])
    tags: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [None]
    if not all(isinstance(tag, str) for tag in tags):
        raise InvalidParams("tags must be a list of words")
    kept = notes.add(_text(params), tags)
    plugin.log.info("kept a note", id=kept)
    return {"id": kept}


@plugin.tool
def list_notes(params: JsonObject, _context: Context) -> JsonObject:
    page: Any = params.get("page", 1)
    if not isinstance(page, int) or page < 1:
        raise InvalidParams("page must be a whole number from 1")
    size = int(plugin.config.get("page_size", 20))
    return {"notes": notes.page(params.get("tag"), page, size, newest_first=_newest_first())}


@plugin.tool
def search_notes(params: JsonObject, _context: Context) -> JsonObject:
    return {"notes": notes.containing(_text(params), newest_first=_newest_first())}


def _text(params: JsonObject) -> str:
    text: Any = params.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InvalidParams("text must be text")
    return text


def _newest_first() -> bool:
    return plugin.config.get("order", "newest") == "newest"


if __name__ == "__main__":
    plugin.run()
