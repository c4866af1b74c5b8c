"""The protocol checks that every plugin has to pass; in this order, since each depends on the previous ones."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.authoring.checks.plugin_under_test import CheckResult, failed, passed, skipped
from paddock.core.errors import PaddockError
from paddock.core.printable import printable
from paddock.host.learn.trial_run import TrialRun
from paddock.manifest.model import CallableForm
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.rpc.errors import METHOD_NOT_FOUND, PeerLost, RpcError

UNKNOWN_METHOD = "no.such.method"
RESPONSE_TIMEOUT_S = 5.0


async def check_handshake(run: TrialRun) -> list[CheckResult]:
    """Check that it answers the handshake as its manifest says, and serves what it declares."""
    try:
        handshake = await run.handshake()
    except PaddockError as error:
        return [failed("handshake", error.message, error.hint)]
    results = [passed("handshake")]
    declared = [spec for spec in run.manifest.callables if spec.form is CallableForm.METHOD]
    mismatch = describe_mismatch(sorted(handshake.missing_callables), handshake.undeclared_methods)
    if mismatch:
        results.append(failed("declared callables", mismatch, "name the same in the manifest and in the program"))
    elif declared:
        results.append(passed("declared callables"))
    return results


def describe_mismatch(unserved: Iterable[str], undeclared: Iterable[str]) -> str:
    """Describe how the manifest's declarations and the program's methods differ; empty if they do not."""
    missing, extra = ", ".join(unserved), ", ".join(undeclared)
    if missing and extra:
        return f"the manifest declares {missing}, the program serves {extra}"
    if missing:
        return f"the manifest declares {missing}, which the program does not serve"
    return f"the program serves {extra}, which the manifest does not declare" if extra else ""


async def check_config(run: TrialRun) -> CheckResult:
    """Check that it accepts its configuration: the defaults and the author's values."""
    try:
        config = await run.configure()
    except PaddockError as error:
        return failed("configuration", error.message, error.hint)
    return passed("configuration", f"took {', '.join(sorted(config))}" if config else "")


async def check_ping(run: TrialRun) -> CheckResult:
    try:
        healthy = await run.ping()
    except TimeoutError:
        return failed("ping", "no answer in time", "answer pings also while a call is under way")
    except PeerLost as error:
        return failed("ping", error.reason)
    return (
        passed("ping") if healthy else failed("ping", "the answer does not say that it is well", """{"status": "ok"}""")
    )


async def check_unknown_method(run: TrialRun) -> CheckResult:
    """Check that an unknown method is answered with -32601."""
    name = "unknown method"
    try:
        await run.request(UNKNOWN_METHOD, {}, RESPONSE_TIMEOUT_S)
    except RpcError as error:
        if error.code == METHOD_NOT_FOUND:
            return passed(name)
        return failed(name, f"answered with {error.code}: {printable(error.message, 200)}", "answer with -32601")
    except TimeoutError:
        return failed(name, "no answer", "every request has an answer: -32601")
    except PeerLost as error:
        return failed(name, f"it fell over: {error.reason}", "answer with -32601")
    return failed(name, "answered as if it knew it", "answer with -32601")


async def check_shutdown(run: TrialRun) -> CheckResult:
    """Check that it ends by itself on request, within its manifest's time limit."""
    shutdown = await run.shut_down()
    limit = f"{run.manifest.timing.shutdown} s"
    if not shutdown.in_time:
        return failed("shutdown", f"still there after {limit}, so it was killed", "end when `shutdown` comes")
    if shutdown.code not in (0, None) and not is_mcp_server(run.manifest):
        return failed("shutdown", f"ended with exit status {shutdown.code}", "end with 0")
    return passed("shutdown", f"{shutdown.seconds * 1000:.0f} ms")


def check_output(run: TrialRun) -> CheckResult:
    """Check that its standard output contains nothing but the protocol."""
    name = "standard output"
    if run.noise:
        return failed(name, f"no JSON-RPC: {printable(run.noise[0], 200)}", "print to stderr, which is the log")
    return failed(name, run.kill_reason) if run.kill_reason else passed(name)


def skip_checks(names: tuple[str, ...]) -> list[CheckResult]:
    return [skipped(name, "it never got that far") for name in names]
