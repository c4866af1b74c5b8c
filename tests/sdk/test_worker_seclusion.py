"""The walls around the process of one call: what they are made of, and what happens where they cannot stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sdk.conversation import PATIENCE, conversation
from tests.sdk.workers import RUN, orders, write

from paddock.cage.confine.syscall_numbers import SYSCALL_NUMBERS
from paddock_sdk.worker import seccomp_filter

# Runs the worker where one system call, by its number, does not exist.
WITHOUT = """
import runpy, sys
from array import array
from paddock_sdk.worker.sandbox import _Kernel
number, script = int(sys.argv[1]), sys.argv[2]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7FFF0000)]
packed = b"".join(
    code.to_bytes(2, "little") + bytes((yes, no)) + operand.to_bytes(4, "little") for code, yes, no, operand in steps
)
program = array("B", packed)
assert _Kernel().prctl(38, 1) == 0
assert _Kernel().prctl(22, 2, len(steps).to_bytes(8, "little") + program.buffer_info()[0].to_bytes(8, "little")) == 0
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
"""


def test_an_agent_is_refused_with_the_reason_where_nothing_could_hold_it(tmp_path: Path) -> None:
    write(tmp_path, {"plug.py": "print('it ran')\ndef run(call): return {}"})
    told = {"PADDOCK_WORKER": orders(tmp_path, {"it": "plug:run"}, dialect="kernel", kind="agent")}
    with conversation(["python3", "-c", WITHOUT, "444", RUN], tmp_path, told) as wire:
        assert wire.process.wait(PATIENCE) == 1
        assert wire.process.stderr
        log = wire.process.stderr.read().decode()
    assert log.startswith("no agent can run on this machine: this kernel has no Landlock")
    assert "it ran" not in log


def test_both_filters_mean_the_same_calls_by_the_same_numbers() -> None:
    ours = (seccomp_filter.UNAVAILABLE_SYSCALLS, seccomp_filter.REFUSED_SYSCALLS)
    both = [(name, row) for table in ours for name, row in table.items() if name in SYSCALL_NUMBERS]
    assert len(both) > 10
    assert {name: row for name, row in both if SYSCALL_NUMBERS[name] != row} == {}
    assert (SYSCALL_NUMBERS["clone"], SYSCALL_NUMBERS["ioctl"]) == (seccomp_filter.CLONE, seccomp_filter.IOCTL)


@pytest.mark.parametrize("machine", seccomp_filter.MACHINES)
def test_the_filter_can_be_made_for_every_machine_that_a_cage_can(machine: str) -> None:
    program = seccomp_filter.filter_program(machine, 4242)
    assert len(program) % 8 == 0
    assert (4242).to_bytes(4, "little") in program
