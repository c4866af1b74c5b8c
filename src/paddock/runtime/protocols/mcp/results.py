"""What a server's answer to a call means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from paddock.core.errors import PluginError
from paddock.core.ids import PluginName
from paddock.core.printable import printable
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.rpc.errors import NO_EFFECT

MAX_MESSAGE_CHARS: Final = 2_000
# Between the two ends of the wire: nobody who calls a tool needs to see it.
_PROTOCOL_KEYS: Final = frozenset({"_meta", "resultType", "isError", "ttlMs", "cacheScope"})
_NO_EFFECT_KEY: Final = f"paddock/{NO_EFFECT}"  # in `_meta`, where the protocol has room for words of others
_CAGE_ERROR_HINTS: Final = (
    (
        re.compile(r"outside (?:of )?(?:the )?allowed director", re.IGNORECASE),
        "it was told which folders are its own; give it one more: {more}",
        "write:fs:FOLDER",
        "--arg FOLDER ",
    ),
    (
        re.compile(r"\b(?:EROFS|EACCES)\b|read-?only (?:file ?system|database)|permission denied", re.IGNORECASE),
        "it may write only where it was granted, which 'paddock plugin info {0}' shows; give it a folder, "
        "and tell it to write there: {more}",
        "write:fs:FOLDER",
        "",
    ),
    (
        re.compile(r"\bENOENT\b|no such file or directory", re.IGNORECASE),
        "it sees only the files it was granted, which 'paddock plugin info {0}' shows; show it more: {more}",
        "read:fs:FOLDER",
        "",
    ),
    (
        re.compile(
            r"\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH|ECONNREFUSED|getaddrinfo)\b|name or service not known"
            r"|temporary failure in name resolution|network is unreachable"
            r"|connection (?:issue|error|refused)|connection attempts failed",
            re.IGNORECASE,
        ),
        "it reaches only the hosts it was granted, which 'paddock plugin info {0}' shows; give it one: {more}",
        "net:HOST:PORT",
        "",
    ),
)
_RESULT_KEYS: Final = {
    CallableForm.RESOURCE: "contents",
    CallableForm.PROMPT: "messages",
    CallableForm.COMPLETION: "completion",
}


def parse_call_result(
    plugin: PluginName, spec: CallableSpec, raw: Any, *, declares_for_itself: bool = False
) -> dict[str, Any]:
    """The result of a call, without what belongs to the wire: for a tool its `content` and `structuredContent`.

    `declares_for_itself` says whether the server has a manifest of its own that can ask for more.

    Raises:
        PluginError: the tool failed, or this is no result.
    """
    told = cast("dict[str, Any]", raw) if isinstance(raw, dict) else None
    if told is None or told.get("resultType", "complete") != "complete":
        raise _malformed_error(plugin, spec, "its answer is no result")
    shown = {key: value for key, value in told.items() if key not in _PROTOCOL_KEYS}
    if spec.form in _RESULT_KEYS:
        if _RESULT_KEYS[spec.form] not in shown:
            raise _malformed_error(plugin, spec, f"its answer has no {_RESULT_KEYS[spec.form]}")
        return shown
    content = shown.setdefault("content", [])
    if not isinstance(content, list):
        raise _malformed_error(plugin, spec, "the content of its answer is no list")
    if told.get("isError") is True:
        words = _error_text(cast("list[Any]", content))
        raise PluginError(
            words or "the tool failed and gave no reason",
            code="tool.failed",
            hint=_hint(plugin, words, declares_for_itself=declares_for_itself),
            details={**shown, "plugin": plugin, NO_EFFECT: _declares_no_effect(told)},
        )
    return shown


def _declares_no_effect(told: Mapping[str, Any]) -> bool:
    """Whether a tool that failed says that it did nothing. Most fail wherever they are, and say nothing about that."""
    meta = told.get("_meta")
    return isinstance(meta, dict) and cast("dict[str, Any]", meta).get(_NO_EFFECT_KEY) is True


def _error_text(content: list[Any]) -> str:
    """The text of a failure's content, as one line."""
    blocks = (cast("Mapping[str, Any]", block) for block in content if isinstance(block, dict))
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return printable(" ".join(text for text in texts if isinstance(text, str)).strip(), MAX_MESSAGE_CHARS)


def _hint(plugin: PluginName, words: str, *, declares_for_itself: bool) -> str:
    """What to do where a tool failed because of its cage, of which its server knows nothing."""
    for pattern, hint, capability, argument in _CAGE_ERROR_HINTS:
        if pattern.search(words):
            line = f"paddock plugin upgrade {plugin}"
            told = f"{line} {argument}--capability {capability}"
            declared = f"declare {capability} in its manifest, give that a new version, then: {line}"
            return hint.format(plugin, more=declared if declares_for_itself else told)
    return ""


def _malformed_error(plugin: PluginName, spec: CallableSpec, reason: str) -> PluginError:
    return PluginError(
        f"{plugin} answered {printable(spec.name)} in a way that the protocol does not know: {reason}",
        code="tool.malformed_result",
        hint="the server's author has to mend it",
        details={"plugin": plugin},
    )
