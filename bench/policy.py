"""How many decisions a second the rules make, anew and kept, with 20, 200 and 2,000 of them, against bare Cedar."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cedarpy
from _side_by_side import Report, alternate, options, timed

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from paddock.policy.engine import Policy  # noqa: E402 - found by the line above
from paddock.policy.principal import PolicyPrincipal, principal_entity  # noqa: E402
from paddock.policy.request import PolicyRequest, build_call_request  # noqa: E402
from paddock.policy.rules import RuleFile, checked_rules, shipped_rule_file  # noqa: E402
from paddock.policy.schema import build_vocabulary  # noqa: E402
from paddock.policy.target import CallableTarget, target_entity  # noqa: E402

COUNTS = (20, 200, 2_000)
ANN = PolicyPrincipal("User", "user:ann", "default", frozenset({"member"}))
cedar: Any = cedarpy


def main() -> None:
    given = options(__doc__)
    decisions = {count: (20 if given.quick else 40_000 // count) for count in COUNTS}
    kept = 2_000 if given.quick else 50_000
    subjects: dict[str, Callable[[], float]] = {}
    numbers: dict[str, int] = {}
    for count in COUNTS:
        policy = _policy(count)
        requests = [_request(number) for number in range(decisions[count])]
        for what, work, times in (
            ("bare Cedar", _bare(policy, requests), len(requests)),
            ("anew", _anew(policy, requests), len(requests)),
            ("kept", _kept(policy, requests, kept), kept),
        ):
            subjects[f"{count:,} rules, {what}"] = work
            numbers[f"{count:,} rules, {what}"] = times
    times = alternate(subjects, rounds=2 if given.quick else 7)
    report = Report(
        "policy",
        given,
        "The rules are the shipped ones and, beyond those, some about one callable each. Bare Cedar is one question "
        "about entities that are parsed already; ours builds and checks the entities of each request, and reads the "
        "answer. Kept: the same requests again.",
        ["what", "decisions a second", "each", "against bare Cedar"],
    )
    for name, measured in times.items():
        each = measured.best / numbers[name]
        bare = f"{name.rpartition(', ')[0]}, bare Cedar"
        against = each / (times[bare].best / numbers[bare])
        report.row(name, f"{1 / each:,.0f}", f"{each * 1e6:.1f} µs", f"{against:.2f}×")
    for count in COUNTS:
        bare, anew, again = (f"{count:,} rules, {what}" for what in ("bare Cedar", "anew", "kept"))
        ratio = (times[anew].best / numbers[anew]) / (times[bare].best / numbers[bare])
        report.at_most(f"{count:,} rules, anew against bare Cedar", ratio, 5)
        report.at_least(f"{count:,} rules, kept decisions a second", numbers[again] / times[again].best, 100_000)
    report.finish()


def _policy(count: int) -> Policy:
    """The shipped rules, fewer of them or more."""
    shipped = checked_rules([shipped_rule_file()], build_vocabulary()).rules[:count]
    text = "\n".join(rule.source for rule in shipped)
    for number in range(count - len(shipped)):
        text += (
            f'\n@id("r{number}") @text("One of many.") '
            f'permit (principal, action in Action::"anyCall", resource == Callable::"plugin.tool{number}") '
            'when { resource.effects.contains(Effect::"read_only") };'
        )
    return Policy(checked_rules([RuleFile("shipped", text)], build_vocabulary()))


def _request(number: int) -> PolicyRequest:
    return build_call_request(ANN, CallableTarget(f"notes.list{number}", "notes", effects=frozenset({"read_only"})))


def _anew(policy: Policy, requests: list[PolicyRequest]) -> Callable[[], float]:
    def work() -> None:
        for request in requests:
            policy.decide_uncached(request)

    return lambda: timed(work)


def _kept(policy: Policy, requests: list[PolicyRequest], count: int) -> Callable[[], float]:
    def work() -> None:
        for _ in range(count // len(requests) + 1):
            for request in requests:
                policy.decide(request)

    return lambda: timed(work) * count / ((count // len(requests) + 1) * len(requests))


def _bare(policy: Policy, requests: list[PolicyRequest]) -> Callable[[], float]:
    schema = cedar.Schema.from_str(policy.rules.schema)
    rules = cedar.PolicySet.from_str(policy.rules.text)
    tags = frozenset(policy.rules.vocabulary.tags)
    request = requests[0]
    both = [principal_entity(request.principal, tags), target_entity(request.target, tags)]
    entities = cedar.Entities.from_json_str(json.dumps(both), schema)
    question = {
        "principal": both[0]["uid"],
        "action": {"type": "Action", "id": "callUnattended"},
        "resource": both[1]["uid"],
        "context": '{"background": false, "dry_run": false}',
    }

    def work() -> None:
        for _ in requests:
            cedar.is_authorized(question, rules, entities, schema=schema)

    return lambda: timed(work)


if __name__ == "__main__":
    main()
