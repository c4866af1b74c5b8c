"""The checks of the wire, which every plugin has to pass: in this order, since each needs what is before it."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.authoring.checks.plugin_under_test import CheckResult, failed, passed, skipped
from paddock.core.errors import PaddockError
from paddock.core.printable import printable
from paddock.host.dev.trial_run import TrialRun
from paddock.manifest.model import CallableForm
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.rpc.errors import METHOD_NOT_FOUND, PeerLost, RpcError

UNKNOWN_METHOD = "no.such.method"
RESPONSE_TIMEOUT_S = 5.0


async def check_handshake(life: TrialRun) -> list[CheckResult]:
    """Whether it answers the first exchange as its manifest says, and serves what it declares."""
    try:
        introduced = await life.handshake()
    except PaddockError as error:
        return [failed("handshake", error.message, error.hint)]
    found = [passed("handshake")]
    declared = [spec for spec in life.manifest.callables if spec.form is CallableForm.METHOD]
    differing = describe_mismatch(sorted(introduced.missing_callables), introduced.undeclared_methods)
    if differing:
        found.append(failed("declared callables", differing, "name the same in the manifest and in the program"))
    elif declared:
        found.append(passed("declared callables"))
    return found


def describe_mismatch(unserved: Iterable[str], undeclared: Iterable[str]) -> str:
    """How what a manifest declares and what its program serves differ, in words; empty where they do not."""
    missing, extra = ", ".join(unserved), ", ".join(undeclared)
    if missing and extra:
        return f"the manifest declares {missing}, the program serves {extra}"
    if missing:
        return f"the manifest declares {missing}, which the program does not serve"
    return f"the program serves {extra}, which the manifest does not declare" if extra else ""


async def check_config(life: TrialRun) -> CheckResult:
    """Whether it takes its configuration, which is its defaults and what the author gave."""
    try:
        given = await life.configure()
    except PaddockError as error:
        return failed("configuration", error.message, error.hint)
    return passed("configuration", f"took {', '.join(sorted(given))}" if given else "")


async def check_ping(life: TrialRun) -> CheckResult:
    try:
        well = await life.ping()
    except TimeoutError:
        return failed("ping", "no answer in time", "answer pings also while a call is under way")
    except PeerLost as gone:
        return failed("ping", gone.reason)
    return passed("ping") if well else failed("ping", "the answer does not say that it is well", """{"status": "ok"}""")


async def check_unknown_method(life: TrialRun) -> CheckResult:
    """Whether a method that nobody has is answered with -32601, and by nothing else."""
    name = "unknown method"
    try:
        await life.request(UNKNOWN_METHOD, {}, RESPONSE_TIMEOUT_S)
    except RpcError as fault:
        if fault.code == METHOD_NOT_FOUND:
            return passed(name)
        return failed(name, f"answered with {fault.code}: {printable(fault.message, 200)}", "answer with -32601")
    except TimeoutError:
        return failed(name, "no answer", "every request has an answer: -32601")
    except PeerLost as gone:
        return failed(name, f"it fell over: {gone.reason}", "answer with -32601")
    return failed(name, "answered as if it knew it", "answer with -32601")


async def check_shutdown(life: TrialRun) -> CheckResult:
    """Whether it ends by itself when it is asked to, in the time that its manifest gives it."""
    ended = await life.shut_down()
    limit = f"{life.manifest.timing.shutdown} s"
    if not ended.in_time:
        return failed("shutdown", f"still there after {limit}, so it was killed", "end when `shutdown` comes")
    if ended.code not in (0, None) and not is_mcp_server(life.manifest):
        return failed("shutdown", f"ended with exit status {ended.code}", "end with 0")
    return passed("shutdown", f"{ended.seconds * 1000:.0f} ms")


def check_output(life: TrialRun) -> CheckResult:
    """Whether nothing but the protocol went over its standard output."""
    name = "standard output"
    if life.noise:
        return failed(name, f"no JSON-RPC: {printable(life.noise[0], 200)}", "print to stderr, which is the log")
    return failed(name, life.kill_reason) if life.kill_reason else passed(name)


def skip_checks(names: tuple[str, ...]) -> list[CheckResult]:
    return [skipped(name, "it never got that far") for name in names]
