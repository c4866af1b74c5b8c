"""What an operator answers, as the Kernel's document has it, with everything that is wrong with it. Pure.

status          succeeded, failed or in_progress
result           what came of it; of work in progress, what it wants to be told when it is asked again
artifacts        [{type, path, hash}]; the hash of one that the host keeps is filled in, or must be the right one
metrics          an object
error            {code, message, …}, where it failed
nondeterminism   {is_nondeterministic, reasons, stability}
retry_after_s    of work in progress: when to ask again
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import orjson

from paddock.capabilities.artifacts.address import is_address, parse_address
from paddock.core.call import OutcomeStatus, Stability
from paddock.core.errors import CallerError, Problem

MAX_ARTIFACTS = 256
MAX_PROGRESS_BYTES = 64 * 1024  # bytes of what is kept of work in progress
_STATUSES = tuple(status.value for status in OutcomeStatus)
_STABILITIES = tuple(stability.value for stability in Stability)
# As tools write them: with the name of the algorithm, or the bare digits.
_HASH = re.compile(r"([a-z0-9][a-z0-9-]{1,31}[:=])?[0-9A-Za-z+/_=-]{8,256}")
_SHA256 = re.compile(r"(sha256[:=])?([0-9a-fA-F]{64})")


def operator_result_problems(answer: Any) -> list[Problem]:
    """Everything that is wrong with an operator's answer."""
    if not isinstance(answer, dict):
        return [Problem("", "is no object", f"answer with a status: {', '.join(_STATUSES)}", "wrong_type")]
    fields = cast("dict[str, Any]", answer)
    found = list[Problem]()
    status = fields.get("status")
    if status not in _STATUSES:
        found.append(Problem("status", "is none that an answer can have", f"say {', '.join(_STATUSES)}", "wrong_value"))
    for name in ("metrics", "error", "nondeterminism"):
        if fields.get(name) is not None and not isinstance(fields[name], dict):
            found.append(Problem(name, "is no object", "leave it out where there is nothing to say", "wrong_type"))
    if fields.get("artifacts") is not None:
        found += _artifact_list_problems(fields["artifacts"])
    if isinstance(fields.get("nondeterminism"), dict):
        found += _nondeterminism_problems(fields["nondeterminism"])
    if status == OutcomeStatus.IN_PROGRESS:
        found += _in_progress_problems(fields)
    return found


def fill_artifact_hashes(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer, in which each artifact that the host keeps has its hash: its address is that."""
    artifacts = answer.get("artifacts")
    if not artifacts:
        return answer
    known = [one if one.get("hash") else {**one, "hash": f"sha256:{parse_address(one['path'])}"} for one in artifacts]
    return {**answer, "artifacts": known}


def stored_artifact_digests(answer: Any) -> list[str]:
    """The digests of the artifacts in an answer that the host itself should have."""
    found = cast("dict[str, Any]", answer).get("artifacts") if isinstance(answer, dict) else None
    return [parse_address(one["path"]) for one in found or () if is_address(one.get("path"))]


def _artifact_list_problems(artifacts: Any) -> Iterator[Problem]:
    if not isinstance(artifacts, list):
        yield Problem("artifacts", "is no list", "", "wrong_type")
        return
    given = cast("list[Any]", artifacts)
    if len(given) > MAX_ARTIFACTS:
        yield Problem("artifacts", f"has {len(given)} entries", f"name at most {MAX_ARTIFACTS}", "too_many")
    for place, one in enumerate(given[:MAX_ARTIFACTS]):
        yield from _artifact_problems(f"artifacts[{place}]", one)


def _artifact_problems(at: str, one: Any) -> Iterator[Problem]:
    fields = cast("dict[str, Any]", one) if isinstance(one, dict) else None
    if fields is None:
        yield Problem(at, "is no object", "give type, path and hash", "wrong_type")
        return
    for name in ("type", "path"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            yield Problem(f"{at}.{name}", "is missing", "", "missing")
    path, said = fields.get("path"), fields.get("hash")
    if not is_address(path):
        if not isinstance(said, str) or not _HASH.fullmatch(said):
            hint = "as in sha256:0a1b…; it is filled in only for what the host keeps (artifact://…)"
            yield Problem(f"{at}.hash", "is no hash", hint, "missing" if said is None else "wrong_value")
        return
    try:
        digest = parse_address(path)
    except CallerError:
        yield Problem(f"{at}.path", "is no address of an artifact", "as in artifact://sha256/0a1b…", "wrong_value")
        return
    if said:
        digits = _SHA256.fullmatch(said) if isinstance(said, str) else None
        if digits is None or digits[2].lower() != digest:
            yield Problem(f"{at}.hash", "is not that of the artifact", f"it is sha256:{digest}", "wrong_value")


def _nondeterminism_problems(told: Mapping[str, Any]) -> Iterator[Problem]:
    at = "nondeterminism"
    if not isinstance(told.get("is_nondeterministic"), bool):
        yield Problem(f"{at}.is_nondeterministic", "is neither true nor false", "", "wrong_type")
    reasons = told.get("reasons")
    if reasons is not None and not (
        isinstance(reasons, list) and all(isinstance(one, str) for one in cast("list[Any]", reasons))
    ):
        yield Problem(f"{at}.reasons", "is no list of texts", 'as in ["llm_sampling"]', "wrong_type")
    if told.get("stability") is not None and told["stability"] not in _STABILITIES:
        yield Problem(f"{at}.stability", "is none of the three", f"say {', '.join(_STABILITIES)}", "wrong_value")


def _in_progress_problems(fields: Mapping[str, Any]) -> Iterator[Problem]:
    after = fields.get("retry_after_s")
    if after is not None and (isinstance(after, bool) or not isinstance(after, int | float) or after < 0):
        yield Problem("retry_after_s", "is no number of seconds", "", "wrong_type")
    if fields.get("error") is not None:
        yield Problem("error", "belongs to what failed", "say failed, or leave the error out", "unexpected")
    if len(orjson.dumps(fields.get("result"))) > MAX_PROGRESS_BYTES:
        hint = f"while it is in progress only {MAX_PROGRESS_BYTES:,} bytes are kept of it"
        yield Problem("result", "is too large", hint, "too_large")
