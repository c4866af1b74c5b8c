"""Why a receiver did not take an event, in words, with what to do about it. Pure."""

from __future__ import annotations

from typing import Final

_PRIVATE: Final = (
    "it leads to an address that is not public; name that in events.private_receivers, and start the daemon anew:"
    " it reads its settings when it starts"
)
_SILENT: Final = "nothing came back in time; see whether it runs and can be reached from here"

_WORDS: Final = {
    "not_allowed": _PRIVATE,
    "webhook.not_allowed": _PRIVATE,
    "webhook.not_https": "events are not sent to a public address in the clear; use https://",
    "net.refused": "nobody listens there; start the receiver, or see whether the port is right",
    "net.unresolved": "its name leads nowhere; see whether the name is right",
    "net.unreachable": "there is no way to it from this machine",
    "net.timeout": _SILENT,
    "timeout": _SILENT,
    "untrusted": "its certificate is signed by nobody whom this machine trusts",
    "lost": "it ended the connection before it answered; look at its log",
    "too_large": "its answer is too large to be read; an empty one is enough",
}


def why_not(reason: str) -> str:
    """What a reason means and what to do; empty where there is no more to say than the reason does."""
    kind, _, number = reason.partition("status.")
    if kind or not number:
        return _WORDS.get(reason, "")
    if number.startswith("3"):
        return f"it answered {number}, and redirects are not followed; give the address that it leads to"
    if number in ("401", "403"):
        return f"it answered {number}; see whether it has the webhook's secret (paddock webhook rotate gives another)"
    return f"it answered {number}, and takes an event by answering 200 to 299; look at its log"
