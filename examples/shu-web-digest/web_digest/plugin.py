"""The plugin class: which pages to fetch, through whom, and the answer's envelope."""

from __future__ import annotations

from typing import Any

from web_digest.sentences import summarize, title_of

CACHE_SECONDS = 900


class Plugin:
    """Digests web pages. All fetching goes through `host.http`, which checks and records it."""

    name = "web_digest"
    version = "1.0.0"

    def get_schema(self) -> dict[str, Any]:
        # A literal, so that the host can read it without running us.
        return {
            "type": "object",
            "required": ["urls"],
            "additionalProperties": False,
            "properties": {
                "op": {
                    "type": "string",
                    "enum": ["digest", "titles"],
                    "default": "digest",
                    "x-ui": {
                        "enum_labels": {"digest": "Digest", "titles": "Titles only"},
                        "enum_help": {
                            "digest": "Keeps the most telling sentences of each page.",
                            "titles": "Fetches the pages and lists their titles.",
                        },
                    },
                },
                "urls": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 20,
                    "items": {"type": "string", "pattern": "^https?://"},
                    "x-ui": {"help": "The pages to read."},
                },
                "sentences": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 10,
                    "default": 3,
                    "x-ui": {
                        "help": "How many to keep of each page.",
                        "show_when": {"field": "op", "equals": "digest"},
                    },
                },
                "debug": {"type": "boolean", "default": False, "x-ui": {"hidden": True}},
            },
        }

    def get_output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["pages"],
            "properties": {
                "pages": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["url", "title", "sentences"],
                        "properties": {
                            "url": {"type": "string"},
                            "title": {"type": "string"},
                            "sentences": {"type": "array", "items": {"type": "string"}},
                        },
                    },
                },
            },
        }

    def requires_permission(self) -> str:
        return "plugin:web_digest"

    async def execute(self, params: dict[str, Any], context: dict[str, Any], host: Any) -> dict[str, Any]:  # noqa: ARG002
        """Fetch and digest each page. A page that cannot be read is skipped and named, and the others still count."""
        pages: list[dict[str, Any]] = []
        skips: list[dict[str, Any]] = []
        fetched = 0
        for url in params["urls"]:
            text = await host.cache.get(url)
            if text is None:
                await host.rate.limit("pages", 1)
                answer = await host.http.fetch({"method": "GET", "url": url})
                fetched += 1
                reason = _unreadable(answer)
                if reason:
                    skips.append({"id": url, "reason": reason, "details": {"status": answer["status"]}})
                    continue
                text = answer["body"]
                await host.cache.set(url, text, ttl=CACHE_SECONDS)
            keep = params.get("sentences", 3) if params.get("op", "digest") == "digest" else 0
            pages.append({"url": url, "title": title_of(text) or url, "sentences": summarize(text, keep)})
        result: dict[str, Any] = {
            "status": "success",
            "data": {"pages": pages},
            "cost": {"api_calls": fetched},
            "skips": skips,
            "citations": [{"type": "web", "ref": page["url"], "label": page["title"]} for page in pages],
        }
        if params.get("debug"):
            result["diagnostics"] = [f"{fetched} of {len(params['urls'])} pages were fetched, the rest came from cache"]
        return result


def _unreadable(answer: dict[str, Any]) -> str | None:
    """Why a page cannot be digested, in the words the host knows; None when it can."""
    if answer["status"] in (401, 403):
        return "auth"
    if answer["status"] != 200:
        return "network"
    kind = {name.lower(): value for name, value in answer.get("headers", {}).items()}.get("content-type", "text/html")
    return None if kind.startswith("text/") else "unsupported_format"
