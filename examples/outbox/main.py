"""An outbox: letters that leave the house, and the copies that stay. The post is a table here, and goes nowhere."""

from __future__ import annotations

from paddock_sdk import Context, InvalidParams, JsonObject, Plugin

CREATE = "CREATE TABLE IF NOT EXISTS letters (number INTEGER PRIMARY KEY, recipient TEXT, subject TEXT, body TEXT)"
SELECT = "SELECT number, recipient, subject, body FROM letters"

plugin = Plugin("outbox", "1.0.0", capabilities_used=["storage:write"])


@plugin.tool
def send(params: JsonObject, _context: Context) -> JsonObject:
    to, subject, text = (_text(params, name) for name in ("to", "subject", "text"))
    plugin.storage.exec(CREATE)  # only tools that write may make a table
    plugin.storage.exec("INSERT INTO letters (recipient, subject, body) VALUES (?, ?, ?)", [to, subject, text])
    number = int(plugin.storage.query("SELECT max(number) AS number FROM letters").rows[0]["number"])
    plugin.log.info("sent a letter", number=number, to=to)
    return {"number": number}


@plugin.tool
def letters(params: JsonObject, _context: Context) -> JsonObject:
    if not _kept():
        return {"letters": []}
    to = params.get("to")
    only, values = ("", []) if to is None else (" WHERE recipient = ?", [to])
    rows = plugin.storage.query(f"{SELECT}{only} ORDER BY number DESC", values).rows
    return {
        "letters": [
            {"number": row["number"], "to": row["recipient"], "subject": row["subject"], "text": row["body"]}
            for row in rows
        ]
    }


@plugin.tool
def empty(_params: JsonObject, _context: Context) -> JsonObject:
    thrown_away = plugin.storage.exec("DELETE FROM letters") if _kept() else 0
    plugin.log.warning("threw letters away", count=thrown_away)
    return {"thrown_away": thrown_away}


def _kept() -> bool:
    return "letters" in plugin.storage.schema()


def _text(params: JsonObject, name: str) -> str:
    text = params.get(name)
    if not isinstance(text, str) or not text.strip():
        raise InvalidParams(f"{name} must be text")
    return text


if __name__ == "__main__":
    plugin.run()
