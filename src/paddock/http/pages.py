"""The few pages that are needed before there is a console: no script, nothing loaded, forms to ourselves alone."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from typing import Final

from starlette.responses import HTMLResponse

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem;color-scheme:light dark}"
    "button{font:inherit;padding:.5rem 1.25rem;cursor:pointer}"
)
_OUR_STYLE: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_MAY: Final = (
    f"default-src 'none'; style-src 'sha256-{_OUR_STYLE}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def page(title: str, words: str, *, action: str = "", button: str = "", status: int = 200) -> HTMLResponse:
    """A page that says something, with a button that posts to a path of ours, or the page's own, where there is one."""
    where = f' action="{escape(action)}"' if action else ""
    form = f'<form method="post"{where}><button>{escape(button)}</button></form>' if button else ""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><p>{escape(words)}</p>{form}</html>"
    )
    return HTMLResponse(text, status, {"content-security-policy": _MAY, "cache-control": "no-store"})
