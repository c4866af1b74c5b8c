"""Validates an operator's result by the Kernel's specification, and reports every problem. Pure.

status           succeeded, failed or in_progress
result           the result; for work in progress, the state that it wants back when it is polled
artifacts        [{type, path, hash}]; the hash of one that the host stores is filled in, or must be correct
metrics          an object
error            {code, message, …}, if it failed
nondeterminism   {is_nondeterministic, reasons, stability}
retry_after_s    for work in progress: when to poll again
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
MAX_PROGRESS_BYTES = 64 * 1024  # of the stored state of work in progress
_STATUSES = tuple(status.value for status in OutcomeStatus)
_STABILITIES = tuple(stability.value for stability in Stability)
# With the name of the algorithm, or only the digits.
_HASH = re.compile(r"([a-z0-9][a-z0-9-]{1,31}[:=])?[0-9A-Za-z+/_=-]{8,256}")
_SHA256 = re.compile(r"(sha256[:=])?([0-9a-fA-F]{64})")


def operator_result_problems(answer: Any) -> list[Problem]:
    """Return every problem of an operator's result."""
    if not isinstance(answer, dict):
        return [Problem("", "is no object", f"answer with a status: {', '.join(_STATUSES)}", "wrong_type")]
    fields = cast("dict[str, Any]", answer)
    problems = list[Problem]()
    status = fields.get("status")
    if status not in _STATUSES:
        problems.append(
            Problem("status", "is none that an answer can have", f"say {', '.join(_STATUSES)}", "wrong_value")
        )
    for name in ("metrics", "error", "nondeterminism"):
        if fields.get(name) is not None and not isinstance(fields[name], dict):
            problems.append(Problem(name, "is no object", "leave it out where there is nothing to say", "wrong_type"))
    if fields.get("artifacts") is not None:
        problems += _artifact_list_problems(fields["artifacts"])
    if isinstance(fields.get("nondeterminism"), dict):
        problems += _nondeterminism_problems(fields["nondeterminism"])
    if status == OutcomeStatus.IN_PROGRESS:
        problems += _in_progress_problems(fields)
    return problems


def fill_artifact_hashes(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result with the hash of each artifact that the host stores: its address contains it."""
    artifacts = answer.get("artifacts")
    if not artifacts:
        return answer
    hashed = [
        artifact if artifact.get("hash") else {**artifact, "hash": f"sha256:{parse_address(artifact['path'])}"}
        for artifact in artifacts
    ]
    return {**answer, "artifacts": hashed}


def stored_artifact_digests(answer: Any) -> list[str]:
    """Return the digests of the artifacts in a result that the host itself should have."""
    artifacts = cast("dict[str, Any]", answer).get("artifacts") if isinstance(answer, dict) else None
    return [parse_address(one["path"]) for one in artifacts or () if is_address(one.get("path"))]


def _artifact_list_problems(artifacts: Any) -> Iterator[Problem]:
    if not isinstance(artifacts, list):
        yield Problem("artifacts", "is no list", "", "wrong_type")
        return
    entries = cast("list[Any]", artifacts)
    if len(entries) > MAX_ARTIFACTS:
        yield Problem("artifacts", f"has {len(entries)} entries", f"name at most {MAX_ARTIFACTS}", "too_many")
    for index, entry in enumerate(entries[:MAX_ARTIFACTS]):
        yield from _artifact_problems(f"artifacts[{index}]", entry)


def _artifact_problems(location: str, artifact: Any) -> Iterator[Problem]:
    fields = cast("dict[str, Any]", artifact) if isinstance(artifact, dict) else None
    if fields is None:
        yield Problem(location, "is no object", "give type, path and hash", "wrong_type")
        return
    for name in ("type", "path"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            yield Problem(f"{location}.{name}", "is missing", "", "missing")
    path, declared_hash = fields.get("path"), fields.get("hash")
    if not is_address(path):
        if not isinstance(declared_hash, str) or not _HASH.fullmatch(declared_hash):
            hint = "as in sha256:0a1b…; it is filled in only for what the host keeps (artifact://…)"
            yield Problem(f"{location}.hash", "is no hash", hint, "missing" if declared_hash is None else "wrong_value")
        return
    try:
        digest = parse_address(path)
    except CallerError:
        yield Problem(
            f"{location}.path", "is no address of an artifact", "as in artifact://sha256/0a1b…", "wrong_value"
        )
        return
    if declared_hash:
        digits = _SHA256.fullmatch(declared_hash) if isinstance(declared_hash, str) else None
        if digits is None or digits[2].lower() != digest:
            yield Problem(f"{location}.hash", "is not that of the artifact", f"it is sha256:{digest}", "wrong_value")


def _nondeterminism_problems(declared: Mapping[str, Any]) -> Iterator[Problem]:
    location = "nondeterminism"
    if not isinstance(declared.get("is_nondeterministic"), bool):
        yield Problem(f"{location}.is_nondeterministic", "is neither true nor false", "", "wrong_type")
    reasons = declared.get("reasons")
    if reasons is not None and not (
        isinstance(reasons, list) and all(isinstance(one, str) for one in cast("list[Any]", reasons))
    ):
        yield Problem(f"{location}.reasons", "is no list of texts", 'as in ["llm_sampling"]', "wrong_type")
    if declared.get("stability") is not None and declared["stability"] not in _STABILITIES:
        yield Problem(f"{location}.stability", "is none of the three", f"say {', '.join(_STABILITIES)}", "wrong_value")


def _in_progress_problems(fields: Mapping[str, Any]) -> Iterator[Problem]:
    retry_after_s = fields.get("retry_after_s")
    if retry_after_s is not None and (
        isinstance(retry_after_s, bool) or not isinstance(retry_after_s, int | float) or retry_after_s < 0
    ):
        yield Problem("retry_after_s", "is no number of seconds", "", "wrong_type")
    if fields.get("error") is not None:
        yield Problem("error", "belongs to what failed", "say failed, or leave the error out", "unexpected")
    if len(orjson.dumps(fields.get("result"))) > MAX_PROGRESS_BYTES:
        hint = f"while it is in progress only {MAX_PROGRESS_BYTES:,} bytes are kept of it"
        yield Problem("result", "is too large", hint, "too_large")
