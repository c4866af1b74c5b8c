"""The few files of /etc that a cage has of its own: who one is, and which hosts have names. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.cage.plan.addresses import DNS_ADDRESS, LOOPBACK, NetworkPlan, literal, plan_network
from paddock.cage.spec import NOBODY, CageSpec

HOST_NAME = "cage"


def own_etc(spec: CageSpec) -> Mapping[str, str]:
    """A cage's own files by path, without one that the plugin was explicitly granted the host's of."""
    bound = {bind.target for bind in spec.binds}
    return {path: text for path, text in etc_files(plan_network(spec.network)).items() if path not in bound}


def etc_files(plan: NetworkPlan) -> Mapping[str, str]:
    """Path and text of each file."""
    return {
        "/etc/group": f"nogroup:x:{NOBODY}:\n",
        "/etc/hosts": _hosts(plan),
        "/etc/nsswitch.conf": f"passwd: files\ngroup: files\nhosts: files{' dns' if plan.dns else ''}\n",
        "/etc/passwd": f"nobody:x:{NOBODY}:{NOBODY}:a caged plugin:/:/usr/sbin/nologin\n",
        # One try, soon over: the name server is in the daemon next door and answers at once or never.
        "/etc/resolv.conf": f"nameserver {DNS_ADDRESS}\noptions timeout:5 attempts:1\n" if plan.dns else "",
    }


def _hosts(plan: NetworkPlan) -> str:
    # localhost is IPv4 only: a grant of localhost listens there, and a client would try ::1 first and fail.
    lines = [f"{LOOPBACK} localhost {HOST_NAME}"]
    lines += [f"{address} {host}" for host, address in plan.names.items() if host != "localhost" and not literal(host)]
    return "\n".join(lines) + "\n"
