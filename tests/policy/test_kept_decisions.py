"""A decision that is kept is the one that would be made, and never that of another request or other rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.policy.rulebook import ANN, CALL, policy_of, rule, thing

from paddock.manifest.effects import Effect
from paddock.manifest.model import PluginKind
from paddock.policy.decision import Allow, Deny
from paddock.policy.principal import PluginTraits, PolicyPrincipal
from paddock.policy.request import (
    CallEnvironment,
    PolicyRequest,
    build_call_request,
    build_propose_request,
    build_use_request,
)
from paddock.policy.schema import CAPABILITY_FAMILIES, SHIPPED_ROLES, SHIPPED_TAGS, SIGNATURES, TIERS
from paddock.policy.target import CallableTarget, CapabilityTarget

NAMES = st.sampled_from(["notes.add", "Gmail.SendEmail", "Email.ApplyDraft", "Email.GenerateDraft"])
SOME_NAMES = st.frozensets(NAMES, max_size=2)
EFFECTS = st.frozensets(st.sampled_from([str(effect) for effect in Effect]), min_size=1, max_size=2)
TRAITS = st.builds(
    PluginTraits,
    st.sampled_from([str(kind) for kind in PluginKind]),
    st.sampled_from(TIERS),
    st.sampled_from(SIGNATURES),
    st.frozensets(st.sampled_from([*SHIPPED_TAGS, "unheard_of"]), max_size=2),
)
SUBJECTS = st.builds(
    PolicyPrincipal,
    st.sampled_from(["User", "ApiKey", "Agent", "Adapter", "Plugin"]),
    st.sampled_from(["user:ann", "user:bob"]),
    st.sampled_from(["default", "acme"]),
    st.frozensets(st.sampled_from(SHIPPED_ROLES), max_size=2),
    st.just(frozenset[str]()),
    st.just(frozenset[str]()),
    SOME_NAMES,
    SOME_NAMES,
    st.booleans(),
    TRAITS,
)
CALLABLES = st.builds(CallableTarget, NAMES, st.sampled_from(["notes", "mail"]), TRAITS, EFFECTS, st.booleans())
CAPABILITIES = st.builds(
    CapabilityTarget,
    st.just("it"),
    st.sampled_from(CAPABILITY_FAMILIES),
    st.booleans(),
    st.frozensets(st.sampled_from(list(Effect))),
)
CIRCUMSTANCES = st.builds(CallEnvironment, st.booleans(), st.booleans(), st.sampled_from([None, "house"]))
REQUESTS = st.one_of(
    st.builds(build_call_request, SUBJECTS, CALLABLES, CIRCUMSTANCES),
    st.builds(build_propose_request, SUBJECTS, CALLABLES),
    st.builds(
        build_use_request,
        SUBJECTS,
        CAPABILITIES,
        method=st.just("x"),
        granted=st.booleans(),
        call_effects=st.one_of(st.none(), EFFECTS),
    ),
)
KEEPING = policy_of(shipped=True)  # keeps what earlier examples asked
FRESH = policy_of(shipped=True)


@given(REQUESTS)
def test_what_is_kept_is_what_would_be_decided_anew(request: PolicyRequest) -> None:
    first, again = KEEPING.decide(request), KEEPING.decide(request)

    assert first == again == FRESH.decide_uncached(request)


def test_every_part_of_a_request_makes_it_another() -> None:
    policy = policy_of(rule("all", f"permit({CALL})"))
    request = build_call_request(ANN, thing())
    policy.decide(request)
    subject, target = request.principal, request.target
    assert isinstance(target, CallableTarget)
    traits = target.traits
    others = [
        *(replace(request, principal=replace(subject, **{name: frozenset({"x"})}))
          for name in ("roles", "groups", "scopes", "consents", "may_call")),
        *(replace(request, principal=replace(subject, **{name: "x"})) for name in ("id", "tenant")),
        replace(request, principal=replace(subject, type="ApiKey")),
        replace(request, principal=replace(subject, interactive=True)),
        *(replace(request, target=replace(target, traits=replace(traits, **changed)))
          for changed in ({"kind": "tool"}, {"tier": "x"}, {"signature": "x"}, {"tags": frozenset({"x"})})),
        *(replace(request, target=replace(target, **{name: "x"})) for name in ("name", "plugin")),
        replace(request, target=replace(target, effects=frozenset({"db_write"}))),
        replace(request, target=replace(target, requires_approval=True)),
        *(replace(request, environment=replace(CallEnvironment(), **changed))
          for changed in ({"background": True}, {"dry_run": True}, {"project": "x"}, {"agent_path": "x"})),
    ]  # fmt: skip

    assert len({request, *others}) == len(others) + 1


def test_other_rules_decide_anew() -> None:
    request = build_call_request(ANN, thing())
    before = policy_of(rule("all", f"permit({CALL})"))
    assert isinstance(before.decide(request), Allow)

    after = policy_of(rule("all", f"forbid({CALL})"))

    assert isinstance(after.decide(request), Deny)
    assert isinstance(before.decide(request), Allow)


def test_no_more_is_kept_than_was_allowed_and_what_was_asked_for_lately_stays() -> None:
    policy = policy_of(rule("all", f"permit({CALL})"), cache_size=3)
    requests = [build_call_request(ANN, thing(f"notes.n{number}")) for number in range(5)]
    first = policy.decide(requests[0])
    for request in requests[1:]:
        policy.decide(request)
        assert policy.decide(requests[0]) is first

    assert policy.decide(requests[1]) is not policy.decide_uncached(requests[1])
    assert len(policy._cache) == 3  # pyright: ignore[reportPrivateUsage]


def test_a_decision_that_could_not_be_made_is_not_kept() -> None:
    policy = policy_of(rule("broken", f'permit({CALL}) when {{ User::"eve".interactive }}'))
    request = build_call_request(ANN, thing())

    assert policy.decide(request) is not policy.decide(request)


@pytest.mark.parametrize("threads", [8])
def test_many_threads_may_ask_at_once(threads: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    policy = policy_of(rule("all", f"permit({CALL})"), cache_size=4)
    requests = [build_call_request(ANN, thing(f"notes.n{number % 9}")) for number in range(400)]
    with ThreadPoolExecutor(threads) as pool:
        decisions = list(pool.map(policy.decide, requests))

    assert all(isinstance(decision, Allow) for decision in decisions)
