"""Patterns found in the texts of poisoned tools: instructions to a model, credential paths, encoded text. Pure.

Each pattern is matched against a text folded by `fold_confusables`, in time linear in its length. They are few and
plain on purpose: a person reads the matched text and judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from msgspec import Struct

from paddock.manifest.definition_flags import DefinitionFlag

_USER = (
    r"(?:the |this to the |to the |any )?(?:end[- ])?"
    r"(?:users?|humans?|persons?|people|operators?|customers?|anyone|anybody)"
)
_CONFIDENTIAL_CONTEXT = (
    r"(?:system prompt|chat history|conversation(?: history)?|previous messages|messages? so far|chain of thought"
    r"|environment variables?|private keys?|api[- ]keys?|ssh keys?|access tokens?|passwords?|credentials?|secrets?"
    r"|seed phrase)"
)


class PatternMatch(Struct, frozen=True):
    """A match, by its position in the folded text."""

    flag: DefinitionFlag
    why: str
    start: int
    end: int


class _Pattern(Struct, frozen=True):
    """A pattern. Every match contains one of `required_substrings` in lower case, which is a fast pre-check."""

    flag: DefinitionFlag
    why: str
    required_substrings: tuple[str, ...]
    expression: str


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Compile a pattern when a text needs it first: every command that opens a host imports this module."""
    return re.compile(expression, re.IGNORECASE)


def _pattern(flag: DefinitionFlag, why: str, substrings: str, *alternatives: str) -> _Pattern:
    return _Pattern(flag, why, tuple(substrings.split(",")), "|".join(alternatives))


_HIDDEN_INSTRUCTIONS = DefinitionFlag.HIDDEN_INSTRUCTIONS
INJECTION_PATTERNS = (
    _pattern(
        _HIDDEN_INSTRUCTIONS,
        "marks text as if it came from whoever instructs the model",
        "<,[,##",
        r"<\s*/?\s*(?:very[-_ ]?)?(?:important|system|instructions?|secret|hidden|critical|admin|override|assistant"
        r"|developer|mandatory)(?:[-_ ](?:instructions?|prompt|message|note|rules?))?\s*>",
        r"<\|im_(?:start|end)\|>|<\|(?:system|user|assistant)\|>|\[/?INST\]|<</?SYS>>",
        r"\[\s*(?:system|hidden|admin|developer)(?: (?:instructions?|prompt|message|note))?\s*\]",
        r"#{2,} ?(?:system|hidden|new) (?:prompt|instructions?|message)",
    ),
    _pattern(
        _HIDDEN_INSTRUCTIONS,
        "tells a model to set aside what others told it",
        "ignor,disregard,forget,overrid,bypass,set aside,instruction,you are n,developer mode,jailbreak",
        r"\b(?:ignore|disregard|forget|override|bypass|set aside)\b[^.]{0,30}\b(?:previous|prior|above|earlier"
        r"|preceding|other|existing|original|system|your|safety|user'?s?)\b[^.]{0,20}\b(?:instructions?|prompts?|rules?"
        r"|directions?|guidelines?|polic(?:y|ies)|guardrails?)\b",
        r"\b(?:new|updated|real|actual) instructions? ?(?::|are\b|follow)",
        r"\byou are (?:now|no longer) (?:an?|the|in|bound)\b|\bdeveloper mode\b|\bjailbreak",
    ),
    _pattern(
        _HIDDEN_INSTRUCTIONS,
        "tells a model to keep something from people",
        "user,human,person,people,operator,customer,anyone,anybody,keep ,silently,secretly,covertly,quietly,discreetly",
        rf"\b(?:do not|don't|never|must not|should not|without)\b[^.]{{0,25}}\b(?:tell(?:ing)?|mention(?:ing)?"
        rf"|inform(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|notify(?:ing)?|alert(?:ing)?|warn(?:ing)?|report(?:ing)?"
        rf"|explain(?:ing)?)\b[^.]{{0,40}}\b{_USER}\b",
        rf"\bwithout (?:asking|the knowledge of|the consent of|approval from|confirmation from) {_USER}\b",
        rf"\b{_USER} (?:must|should|may|need|needs|does|do|is|are|will)(?: not|n't)(?: to)? "
        r"(?:know|see|notice|be (?:told|informed|aware|shown|notified)|aware)",
        r"\bkeep (?:this|it|these|that) (?:step |instruction )?(?:secret|hidden|confidential|to yourself|between us)\b",
        r"\b(?:silently|secretly|covertly|quietly|discreetly) (?:send|read|copy|forward|include|call|upload|pass|add"
        r"|append|execute|run|collect|save|store|post|transmit)\b",
    ),
    _pattern(
        _HIDDEN_INSTRUCTIONS,
        "tells a model to read or hand over something that is not this tool's",
        "file,content,~/,/etc/,/home/,env,history,parameter,argument,field,note,context,url,http,mailto,prompt,"
        "conversation,message,thought,key,token,password,credential,secret,seed phrase",
        r"\b(?:before|prior to|after|when|whenever|each time|every time|in order to)\b[^.]{0,15}\b(?:us(?:e|ing)"
        r"|call(?:ing)?|invok(?:e|ing)|run(?:ning)?|execut(?:e|ing)|answer(?:ing)?)\b[^.]{0,40}"
        r"\b(?:read|open|cat|send|forward|upload|include|pass|copy|collect|dump|attach)\b[^.]{0,40}"
        r"(?:\bfiles?\b|\bcontents?\b|~/|/etc/|/home/|\benv\b|\bhistory\b)",
        r"\b(?:read|open|cat|access|load|fetch)\b[^.]{0,60}\b(?:and|then)\b[^.]{0,20}\b(?:pass|send|include|put|attach"
        r"|append|forward|upload|return|post)\b[^.]{0,40}\b(?:it|its|them|contents?|result|file)\b[^.]{0,30}"
        r"\b(?:as|in|into|to|through|with) (?:the |this |a |an )?[`'\"]?\w*[`'\"]?"
        r" ?(?:parameter|argument|field|note|context|url|https?:)",
        rf"\b(?:send|forward|upload|post|exfiltrate|transmit|leak|include|pass|repeat|copy|append|paste|put|write out"
        rf"|provide|attach|fill in)\b[^.]{{0,40}}\b(?:the |all |any |your |full |whole |entire |complete |user'?s? )+"
        rf"(?:\w+ )?{_CONFIDENTIAL_CONTEXT}",
        r"\b(?:send|forward|upload|post|give|hand|copy)\b[^.]{0,20}\ball (?:of )?(?:the |your |my |user'?s? )?"
        r"(?:\w+ )?(?:keys|passwords|tokens|secrets|credentials|conversations?)\b",
        r"\b(?:https?://|mailto:)\S+[^.]{0,40}\b(?:every|each|all) (?:request|message|call|result|answer)",
    ),
    _pattern(
        _HIDDEN_INSTRUCTIONS,
        "tells a model to change what people asked for, or what other tools do",
        " to,instead of,over,rather than,regardless,no other,no matter,other tool,other server,other plugin,even if,"
        "also if, is called, is used, is invoked, is available, is present",
        r"\b(?:all|any|every|each)\b[^.]{0,30}\b(?:e-?mails?|messages?|payments?|transactions?|transfers?|recipients?"
        r"|invoices?|requests?)\b[^.]{0,40}\b(?:must|should|have to|has to|needs? to|are to|is to|shall|always)\b"
        r"[^.]{0,20}\b(?:sent|forwarded|routed|redirected|copied|addressed|delivered|bcc|cc|paid|transferred|go) to\b",
        r"\b(?:always|must|only)\b[^.]{0,10}\b(?:use|call|prefer|choose|pick|select)\b[^.]{0,10}"
        r"\bthis (?:tool|one|function|server)\b[^.]{0,15}"
        r"\b(?:instead of|over|rather than|regardless|and no other|no matter)\b",
        r"\b(?:do not|don't|never) (?:use|call|trust|choose|pick) (?:any )?(?:of the )?other"
        r" (?:tools?|servers?|plugins?)",
        r"\b(?:even|also) if (?:the user|they|people)[^.]{0,30}\b(?:ask|asks|asked|say|says|said|want|wants)\b"
        r"[^.]{0,30}\b(?:otherwise|something else|not to|stop|no)\b",
        r"\b(?:when|whenever|if) (?:the |any |another )?[`'\"]?\w+[`'\"]?(?: tool| server)? is (?:called|used|invoked"
        r"|available|present)[^.]{0,40}\b(?:must|instead|always|change|replace|modify|add|set)\b",
    ),
    _pattern(
        DefinitionFlag.NAMES_CREDENTIALS,
        "names a place where keys or passwords lie",
        ".,id_,/etc/,claude_desktop_config,mcp.json",
        r"\.ssh\b|id_(?:rsa|ed25519|ecdsa|dsa)|\.aws\b|\.gnupg\b|\.kube\b|\.netrc\b|\.pgpass\b|\.git-credentials"
        r"|\.npmrc\b|\.pypirc\b|\.docker/config|\.config/gcloud|/etc/(?:passwd|g?shadow|sudoers)|\.password-store"
        r"|wallet\.dat|cookies\.sqlite|\.\w{2,4}_history\b",
        r"(?:\.cursor/|\.vscode/|\.)mcp\.json|claude_desktop_config|\.claude\.json",
        r"(?<![\w.])\.env\b(?!\w)",
    ),
    _pattern(
        DefinitionFlag.ENCODED_TEXT,
        "is written in a code that a model reads and a person does not",
        "\\x,\\u,%,&#,base64,rot13,hex",
        r"(?:\\x[0-9a-f]{2}){4,}|(?:\\u[0-9a-f]{4}){4,}|(?:%[0-9a-f]{2}){8,}|(?:&#x?[0-9a-f]{2,6};){4,}",
        r"\b(?:base64|rot13|hex)[- ]?(?:decode|encoded|encode)\b[^.]{0,40}\b(?:follow|execute|obey|instructions?"
        r"|and (?:send|pass|include|run))\b",
    ),
)
_ENCODED_RUN = re.compile(r"[A-Za-z0-9+/_-]{48,}={0,2}")


_HEX = re.compile(r"[0-9a-fA-F]+")


def find_injections(text: str) -> Iterator[PatternMatch]:
    """Yield the matches in a folded text, at most one for each pattern."""
    lowered = text.lower()
    for candidate in INJECTION_PATTERNS:
        if any(substring in lowered for substring in candidate.required_substrings) and (
            match := _compiled(candidate.expression).search(text)
        ):
            yield PatternMatch(candidate.flag, candidate.why, match.start(), match.end())
    for blob in _ENCODED_RUN.finditer(text):
        if _looks_encoded(blob[0]):
            yield PatternMatch(
                DefinitionFlag.ENCODED_TEXT, "is written in a code that people cannot read", blob.start(), blob.end()
            )
            return


def _looks_encoded(run: str) -> bool:
    """Whether a long run of characters is encoded data, and not a path, words or an alphabet."""
    if len(run) >= 80 and _HEX.fullmatch(run):
        return True
    character_classes = (str.isupper, str.islower, str.isdigit)
    if not all(any(in_class(letter) for letter in run) for in_class in character_classes) or len(set(run)) < 16:
        return False
    parts = re.split(r"[-_/]", run.rstrip("="))
    changes = sum(a.isupper() != b.isupper() for a, b in pairwise(run) if a.isalpha() and b.isalpha())
    return len(max(parts, key=len)) >= 32 and changes >= 8


MAX_SCANNED_TEXT_CHARS = 20_000  # scanned characters of one text; no person would read more
# Each pattern is anchored at the start of a run, so that no text makes the search visit a position twice.
_HIDDEN_MARKUP_PATTERNS = (
    ("stands in a comment, which is not shown", re.compile(r"<!--.{3}.{0,200}|\[//\]: ?# ?[\"(].{0,200}", re.DOTALL)),
    (
        "is styled so that it does not show",
        re.compile(r"(?:display|visibility|font-size|opacity):\s{0,9}(?:none|hidden|0\b)", re.IGNORECASE),
    ),
    ("stands far to the right, out of view", re.compile(r"(?<![ \t\u00a0\u3000])[ \t\u00a0\u3000]{50,}+(?=\S)")),
    ("stands far below, out of view", re.compile(r"(?:\A|(?<=\S))[ \t]*+\n(?:[ \t]*+\n){12,}+[ \t]*+(?=\S)")),
    (
        "would steer a terminal, where one shows it",
        re.compile(r"\\(?:x1b|033|u001b|e)\[[0-9;]{0,20}[a-zA-Z]", re.IGNORECASE),
    ),
    (
        "shows a picture from elsewhere, which learns what is put into its address",
        re.compile(r"!\[[^\]]{0,100}\]\(https?:"),
    ),
)


def find_hidden_markup(text: str) -> Iterator[PatternMatch]:
    """Yield the parts of a text that are kept out of view, at most one for each pattern. The text is not folded:
    whitespace counts."""
    for reason, pattern in _HIDDEN_MARKUP_PATTERNS:
        if match := pattern.search(text, 0, MAX_SCANNED_TEXT_CHARS):
            yield PatternMatch(DefinitionFlag.HIDDEN_TEXT, reason, match.start(), match.end())
    if len(text) > MAX_SCANNED_TEXT_CHARS:
        reason = f"is {len(text):,} characters long, and was looked through up to {MAX_SCANNED_TEXT_CHARS:,}"
        yield PatternMatch(DefinitionFlag.HIDDEN_TEXT, reason, MAX_SCANNED_TEXT_CHARS, MAX_SCANNED_TEXT_CHARS)
