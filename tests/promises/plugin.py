"""The pytest plugin of the project: promises named by tests, the slow set, and the memory of the last run.

- `@pytest.mark.req("G-07")` or `req("G-16", "hook membership")` must name an entry of tests/requirements.toml, or
  nothing runs.
- Tests marked slow, registry, soak or n8n run only with `--all`, with `-m`, or when named by their node id; so do those
  that repeat on PostgreSQL, with other values, what was tried there, and those that repeat in another kind of cage what
  was tried in one.
- Outcomes, durations and CPU seconds are kept in `.run/last-test.json`, so that `./run requirements` can tell what
  passed from what exists. A run of many tests ends with the CPU seconds of each room beside its budget (`cost.py`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from promises import cost
from promises.catalogue import Catalogue, UnknownPromise, read_catalogue
from promises.claims import ClaimsCollector, ClaimsFile
from promises.marks import marks
from promises.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Generator

    CollectWrapper = Generator[None, pytest.CollectReport, pytest.CollectReport]

SLOW_MARKS = ("slow", "registry", "soak", "n8n")
_PAIRS = ({"cold", "warm"}, {"root", "ordinary user"})
_DIAGONAL = ({"cold", "root"}, {"warm", "ordinary user"})
_MANY_TESTS = 500  # below that, what a run costs says little about a room
CATALOGUE = pytest.StashKey[Catalogue]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("paddock").addoption(
        "--all", action="store_true", dest="run_all", help="also run tests marked " + ", ".join(SLOW_MARKS)
    )


def pytest_configure(config: pytest.Config) -> None:
    catalogue = config.stash[CATALOGUE] = read_catalogue(config.rootpath / "tests" / "requirements.toml")
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        in_worker = hasattr(config, "workerinput")
        keep_in = None if in_worker or config.option.collectonly else ClaimsFile(config.rootpath)
        config.pluginmanager.register(ClaimsCollector(catalogue, keep_in=keep_in), "paddock-claims")
    config.pluginmanager.register(cost.Meter(), "paddock-meter")
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(LastRun(config), "paddock-last-run")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> CollectWrapper:
    """Turn a mark that names no known promise into a collection error, which stops the run before any test."""
    report = yield
    catalogue = collector.config.stash[CATALOGUE]
    items = [node for node in report.result or () if isinstance(node, pytest.Item)]
    wrong = [f"{item.nodeid}: {fault}" for item in items if (fault := _fault(item, catalogue))]
    if wrong:
        report.outcome = "failed"
        report.longrepr = "a test names a promise that does not exist\n  " + "\n  ".join(wrong)
        report.result = []
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _everything_wanted(config):
        return
    repeated = _repeated_on_postgresql(items) | _repeated_in_cages(items)
    slow = [item for item in items if item in repeated or any(item.get_closest_marker(mark) for mark in SLOW_MARKS)]
    if slow:
        config.hook.pytest_deselected(items=slow)
        kept = set(slow)
        items[:] = [item for item in items if item not in kept]


def _repeated_on_postgresql(items: list[pytest.Item]) -> set[pytest.Item]:
    """Every sentence about rows is tried on PostgreSQL, but with each of its values only where time is no matter."""
    seen: set[str] = set()
    repeated: set[pytest.Item] = set()
    for item in items:
        function, _, values = item.nodeid.partition("[")
        if values.startswith("postgresql-"):
            if function in seen:
                repeated.add(item)
            seen.add(function)
    return repeated


def _repeated_in_cages(items: list[pytest.Item]) -> set[pytest.Item]:
    """What is tried in cages of every kind is tried in those of a diagonal only: cold by root, warm by ordinary users.

    Of tests with two kinds of cages, each next one has the other kind.
    """
    kinds: dict[str, set[str]] = defaultdict(set)
    for item in items:
        kinds[_function(item)] |= _cage_of(item)
    tried: dict[str, tuple[set[str], ...]] = {
        function: _DIAGONAL for function, found in kinds.items() if len(found) == 4
    }
    for turn, function in enumerate(function for function, found in kinds.items() if found in _PAIRS):
        tried[function] = ({sorted(kinds[function])[turn % 2]},)
    return {item for item in items if _cage_of(item) not in tried.get(_function(item), (_cage_of(item),))}


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _cage_of(item: pytest.Item) -> set[str]:
    values = item.nodeid.partition("[")[2].removesuffix("]")
    return {kind for kind in values.split("-") if any(kind in pair for pair in _PAIRS)}


def _fault(item: pytest.Item, catalogue: Catalogue) -> str | None:
    try:
        for promise_id, row in marks(item):
            catalogue.check(promise_id, row)
    except UnknownPromise as unknown:
        return str(unknown)
    return None


def _everything_wanted(config: pytest.Config) -> bool:
    return bool(config.option.run_all or config.option.markexpr or any("::" in arg for arg in config.args))


class LastRun:
    """Notes each test's outcome and writes them down when the run ends."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._cpu_s: dict[str, float] = {}
        self._collection_cpu_s = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = round(self._seconds.get(report.nodeid, 0.0) + report.duration, 3)
        if (cpu_s := cost.cost_of(report)) is not None:
            self._cpu_s[report.nodeid] = cpu_s
        if report.when == "setup":  # properties of a test are on all its reports
            self._collection_cpu_s += cost.cost_of(report, "collection_cpu_s") or 0.0
        # A test has three phases; a failure in any of them is the test's, and a skip never hides one.
        if report.when == "call" or report.outcome != "passed":
            worst = self._outcomes.get(report.nodeid)
            if worst != "failed":
                self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        memory = Memory(self._config.rootpath / ".run" / "last-test.json")
        costs = {test: (self._seconds[test], self._cpu_s.get(test, 0.0)) for test in self._outcomes}
        memory.remember(self._outcomes, costs)
        if self._whole_set():
            memory.remember_whole_set(passed=int(exitstatus) == 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._cpu_s) < _MANY_TESTS:
            return
        budgets = cost.read_budgets(self._config.rootpath / "tests" / "budgets.toml")
        terminalreporter.section("CPU seconds")
        for line in cost.table(self._cpu_s, self._collection_cpu_s, budgets):
            terminalreporter.write_line(line)

    def _whole_set(self) -> bool:
        """True for `--all` with nothing narrowed down."""
        option = self._config.option
        narrowed = option.keyword or option.markexpr or option.deselect or getattr(option, "lf", False)
        from_ini = self._config.args_source is pytest.Config.ArgsSource.TESTPATHS
        return bool(option.run_all and from_ini and not narrowed)
