"""An outbox: letters that leave the house, and the copies that stay. The post is a table here, and goes nowhere."""

from __future__ import annotations

from typing import Annotated, TypedDict

from paddock_sdk import Plugin

CREATE = "CREATE TABLE IF NOT EXISTS letters (number INTEGER PRIMARY KEY, recipient TEXT, subject TEXT, body TEXT)"
SELECT = "SELECT number, recipient, subject, body FROM letters"

plugin = Plugin("outbox", "1.0.0")


class Sent(TypedDict):
    number: Annotated[int, {"minimum": 1}]


class Letter(TypedDict):
    number: int
    to: str
    subject: str
    text: str


class Letters(TypedDict):
    letters: list[Letter]


class Emptied(TypedDict):
    thrown_away: Annotated[int, {"minimum": 0}]


@plugin.tool
def send(
    to: Annotated[str, "Whom it is for", {"minLength": 1, "maxLength": 200}],
    subject: Annotated[str, {"minLength": 1, "maxLength": 200}],
    text: Annotated[str, {"minLength": 1, "maxLength": 5000}],
) -> Sent:
    """Send a letter. It cannot be taken back."""
    plugin.storage.exec(CREATE)
    plugin.storage.exec("INSERT INTO letters (recipient, subject, body) VALUES (?, ?, ?)", [to, subject, text])
    number = int(plugin.storage.query("SELECT max(number) AS number FROM letters").rows[0]["number"])
    plugin.log.info("sent a letter", number=number, to=to)
    return {"number": number}


@plugin.tool
def letters(to: Annotated[str, "Only letters to this recipient"] = "") -> Letters:
    """The letters that were sent, newest first."""
    plugin.storage.exec(CREATE)
    only, values = (" WHERE recipient = ?", [to]) if to else ("", [])
    rows = plugin.storage.query(f"{SELECT}{only} ORDER BY number DESC", values).rows
    return {
        "letters": [
            {"number": row["number"], "to": row["recipient"], "subject": row["subject"], "text": row["body"]}
            for row in rows
        ]
    }


@plugin.tool
def empty() -> Emptied:
    """Throw away the copies of all letters."""
    plugin.storage.exec(CREATE)
    thrown_away = plugin.storage.exec("DELETE FROM letters")
    plugin.log.warning("threw letters away", count=thrown_away)
    return {"thrown_away": thrown_away}


if __name__ == "__main__":
    plugin.run()
