"""The policy of a running host, for people to read, try and test. Read-only: it decides and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from paddock.config.directories import Directories
from paddock.config.settings import PolicySettings
from paddock.core.call import Principal
from paddock.core.clock import Clock
from paddock.core.errors import NotFound, PaddockError, Problem
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.policy.active_policy import ActivePolicy
from paddock.host.policy.hypothetical_call import (
    ROLE_PREFIX,
    HypotheticalCall,
    HypotheticalDecision,
    catalogue_lookup,
    decide_hypothetical,
)
from paddock.host.policy.known_names import known_names
from paddock.manifest.model import PluginKind
from paddock.plugins.store.rows import current_versions
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.policy.cases import FailedCase, PolicyCase, find_failed_cases, read_case_file, read_cases
from paddock.policy.entity_names import find_unknown_entities
from paddock.policy.rules import SHIPPED_ORIGIN, RuleSet
from paddock.policy.schema import SHIPPED_ROLES
from paddock.policy.versions import PolicyVersion, list_versions, load_version
from paddock.principals.api_keys import ApiKey, list_keys
from paddock.principals.people import Person, list_people
from paddock.principals.principal_name import parse_principal_name

MAX_LISTED_VERSIONS = 20


class ActiveRules(Struct, frozen=True):
    """The rules in force.

    Attributes:
        rules: The rules with their version.
        history: The versions that were in force, newest first.
        load_error: Why the files' current rules are not in force; None if they are.
        unknown_names: Names in custom rules that do not exist here. Rules and names are those of all tenants, so this
            is reported to operators of the host only.
        folder: The directory for custom rules; it may not exist.
    """

    rules: RuleSet
    history: tuple[PolicyVersion, ...]
    load_error: PaddockError | None
    unknown_names: tuple[Problem, ...]
    folder: Path


class PolicyTryOptions(Struct, frozen=True):
    """The principals and callables that a tenant can try the rules with."""

    people: tuple[Person, ...]
    keys: tuple[ApiKey, ...]
    agents: tuple[str, ...]
    roles: tuple[str, ...]
    callables: tuple[str, ...]


class CaseRunResult(Struct, frozen=True):
    """The result of testing the rules against their table of cases."""

    version: str
    count: int
    failed: tuple[FailedCase, ...]


class PolicyService:
    """Reads, tries and tests the rules.

    Args:
        views: The plugin store and database, for reads.
        active_policy: The policy in force.
        catalogue: Returns a tenant's current catalogue.
        directories, policy: Locate custom rules.
        clock: The time.
    """

    def __init__(
        self,
        views: StoreThread,
        active_policy: ActivePolicy,
        catalogue: Callable[[Tenant], Catalogue],
        directories: Directories,
        policy: PolicySettings,
        clock: Clock,
    ) -> None:
        self._views = views
        self._active_policy = active_policy
        self._catalogue = catalogue
        self._folder = Path(policy.directory) if policy.directory else directories.config / "policies"
        self._clock = clock

    async def active_rules(self, tenant: Tenant) -> ActiveRules:
        """Return the rules in force."""
        rules, unusable = self._active_policy.policy.rules, self._active_policy.load_error
        check_names = tenant == DEFAULT_TENANT and any(rule.origin != SHIPPED_ORIGIN for rule in rules.rules)

        def query(store: PluginStore) -> tuple[list[PolicyVersion], list[Problem]]:
            versions = store.database.read(lambda tx: list_versions(tx, MAX_LISTED_VERSIONS))
            return versions, find_unknown_entities(rules, store.database.read(known_names)) if check_names else []

        history, unknown_names = await self._views.run(query)
        return ActiveRules(rules, tuple(history), unusable, tuple(unknown_names), self._folder)

    async def rules_of_version(self, version: str) -> RuleSet:
        """Return the rules of a version that was once in force.

        Raises:
            NotFound: no such version was ever in force.
            HostError: the stored version was altered.
        """
        rules = await self._views.run(lambda store: store.database.read(lambda tx: load_version(tx, version)))
        if rules is None:
            raise NotFound(f"no rules {printable(version, 60)!r} were ever in force here", code="policy.no_version")
        return rules

    async def try_options(self, tenant: Tenant) -> PolicyTryOptions:
        """Return the principals and callables to try the rules with."""
        now = self._clock.now()

        def query(store: PluginStore) -> tuple[list[Person], list[ApiKey], list[str]]:
            return store.database.read(
                lambda tx: (
                    list_people(tx, tenant),
                    [key for key in list_keys(tx, tenant) if key.state(now) == "live"],
                    [
                        name
                        for name, row in current_versions(tx).items()
                        if row.document.get("kind") == PluginKind.AGENT
                    ],
                )
            )

        people, keys, agents = await self._views.run(query)
        custom_roles = {role for person in people for role in person.rights.roles} - {*SHIPPED_ROLES}
        return PolicyTryOptions(
            tuple(people),
            tuple(keys),
            tuple(sorted(map(str, agents))),
            (*SHIPPED_ROLES, *sorted(custom_roles)),
            self._catalogue(tenant).names(),
        )

    async def try_call(self, by: Principal, call: HypotheticalCall) -> HypotheticalDecision:
        """Decide a hypothetical call within the caller's tenant; see `decide_hypothetical`."""
        if not call.who.startswith(ROLE_PREFIX) and parse_principal_name(call.who, by.tenant).tenant != by.tenant:
            raise NotFound(f"there is no user {printable(call.who, 80)!r}", code="person.not_found")
        policy, now, served = (
            self._active_policy.policy,
            self._clock.now(),
            catalogue_lookup(self._catalogue(by.tenant).find),
        )
        return await self._views.run(lambda store: decide_hypothetical(store, policy, call, now, served), by.tenant)

    async def run_cases(self, own_cases: Sequence[PolicyCase] = ()) -> CaseRunResult:
        """Test the rules against the table of cases that ships with them, and against the operator's own."""
        policy = self._active_policy.policy

        def run() -> CaseRunResult:
            cases = [*read_cases(read_case_file(), policy.rules.vocabulary), *own_cases]
            return CaseRunResult(policy.version, len(cases), tuple(find_failed_cases(policy, cases)))

        return await asyncio.to_thread(run)
