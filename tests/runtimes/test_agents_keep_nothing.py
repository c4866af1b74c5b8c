"""Whatever an agent does to remember something is not there in its next call: each way is one a plugin could take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.runtime.stage import patiently
from tests.runtimes.test_python_code import kernel, opened, take


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# Each way leaves a mark in `leave()` and looks for one in `found()`, which runs first; what is refused leaves none.
# Code before them runs when the agent is loaded.
WAYS = {
    "a variable": """
count = []
def found(): return list(count)
def leave(): count.append(1)
""",
    "memory that forks share": """
import mmap
shared = mmap.mmap(-1, 8)
def found(): return shared[0]
def leave(): shared[0] = 1
""",
    "the position in a file that was opened early": """
file = open(__file__, "rb")
def found(): return os.lseek(file.fileno(), 0, 1)
def leave(): os.lseek(file.fileno(), 7, 0)
""",
    "the flags of a stream": """
import fcntl
def found(): return [fcntl.fcntl(n, fcntl.F_GETFL) & os.O_NONBLOCK for n in (0, 1, 2)]
def leave():
    for n in (0, 1, 2): os.set_blocking(n, False)
""",
    "who is told of a stream": """
import fcntl
def found(): return [fcntl.fcntl(n, 11) for n in (0, 1, 2)]
def leave():
    for n in (0, 1, 2): fcntl.fcntl(n, 10, 12)
""",
    "a signal whose handler is our own": """
import signal
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
def found(): return list(got)
def leave(): os.kill(os.getppid(), signal.SIGUSR1)
""",
    "limits of another process": """
import resource
def found(): return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
def leave():
    for process in others(): resource.prlimit(process, resource.RLIMIT_NOFILE, (found() - 1, found()))
""",
    "the processors of another process": """
def found(): return len(os.sched_getaffinity(0))
def leave():
    for process in others(): os.sched_setaffinity(process, {min(os.sched_getaffinity(0))})
""",
    "how nice another process is": """
def found(): return os.getpriority(os.PRIO_PROCESS, 0)
def leave():
    for process in others(): os.setpriority(os.PRIO_PROCESS, process, 7)
""",
    "a file": """
def found(): return os.path.exists("/tmp/left")
def leave(): open("/tmp/left", "w").close()
""",
    "a directory": """
def found(): return os.path.exists("/tmp/made")
def leave(): os.mkdir("/tmp/made")
""",
    "a link, whose target is any text": """
def found(): return os.path.islink("/tmp/link") and os.readlink("/tmp/link")
def leave(): os.symlink("a secret", "/tmp/link")
""",
    "a named pipe": """
def found(): return os.path.exists("/dev/shm/left")
def leave(): os.mkfifo("/dev/shm/left")
""",
    "the mode of a directory": """
def found(): return os.stat("/tmp").st_mode
def leave(): os.chmod("/tmp", 0o711)
""",
    "the times of a directory": """
def found(): return os.stat("/tmp").st_mtime
def leave(): os.utime("/tmp", (1, 1))
""",
    "an attribute of a directory": """
def found(): return os.listxattr("/tmp")
def leave(): os.setxattr("/tmp", "user.left", b"x")
""",
    "a flag of a directory": """
import fcntl
def found(): return fcntl.ioctl(os.open("/tmp", os.O_RDONLY), 0x80086601, bytes(8))[0]
def leave(): fcntl.ioctl(os.open("/tmp", os.O_RDONLY), 0x40086602, (0x40).to_bytes(8, "little"))
""",
    "a hint about a file": """
import fcntl
def hint(number, value): return fcntl.fcntl(os.open(__file__, os.O_RDONLY), number, value.to_bytes(8, "little"))
def found(): return hint(1035, 0)[0]
def leave(): hint(1036, 3)
""",
    "a process that outlives the call": """
import time
def found(): return len(others())
def leave():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(60)
        os._exit(0)
""",
    "a program that outlives the call": """
import subprocess, sys
def found(): return len(others())
def leave(): subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
""",
    "a port that stays taken": """
import socket
def found():
    try:
        with socket.socket() as one: one.bind(("127.0.0.1", 7777))
    except OSError as error: return error.errno == 98
def leave():
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 7777)); one.listen(); two.connect(("127.0.0.1", 7777)); one.accept()[0].close()
""",
    "the worker's own pipes": """
def found(): return None
def leave():
    for process in others():
        for number in range(16):
            with suppress(OSError), open(f"/proc/{process}/fd/{number}", "wb", 0) as pipe:
                pipe.write(b"noise\\n")
                raise AssertionError(f"wrote to {number} of {process}")
""",
    "the memory that this process was copied from": """
import ctypes, re
write = ctypes.CDLL(None).write
def found():
    # The kernel says whether an address can be read, where reading it ourselves could be our end.
    ends, seen = os.pipe(), set()
    for anchor in (id(object()), id(request), id(bytearray(300_000))):
        for page in range((anchor >> 12) - 4096, (anchor >> 12) + 4096):
            if write(ends[1], ctypes.c_void_p(page << 12), 4096) == 4096:
                seen |= set(re.findall(rb"words of caller ([0-9])", os.read(ends[0], 4096)))
    return sorted(seen - {request["words"][-1].encode()})
def leave(): pass
""",
}
AGENT = """
import os
from contextlib import suppress
def others():
    alive = []
    for number in range(1, 400):
        with suppress(ProcessLookupError):
            os.getpgid(number)
            alive.append(number)
    return [number for number in alive if number != os.getpid()]
ways = {}
for name, source in WAYS.items():
    ways[name] = {"os": os, "suppress": suppress, "others": others, "__file__": __file__}
    exec(source, ways[name])
def run(request):
    way = ways[request["way"]]
    way["request"] = request
    seen = "refused"
    with suppress(OSError):
        seen = way["found"]()
    with suppress(OSError, ValueError):
        way["leave"]()
    return {"seen": repr(seen)}
"""


@pytest.mark.req("K-23", "agent")
async def test_whatever_an_agent_leaves_is_not_there_in_its_next_call(home: Home, tmp_path: Path) -> None:
    take(home, kernel(tmp_path / "p", "agent", f"WAYS = {WAYS!r}\n{AGENT}"), "Our.Thing")
    carried: dict[str, list[str]] = {}
    async with opened(home) as host:
        for way in WAYS:
            asked = [{"way": way, "words": f"words of caller {number}"} for number in range(2)]
            answers = [await patiently(host.call("Our.Thing", payload)) for payload in asked]
            carried[way] = [answer["seen"] for answer in answers]
    assert {way: seen for way, seen in carried.items() if len(set(seen)) > 1} == {}


@pytest.mark.parametrize("start", ["warm", "cold"])
async def test_no_code_of_an_agent_runs_before_its_call_is_walled_in(home: Home, tmp_path: Path, start: str) -> None:
    code = """
import os, sys
def run(request):
    return {"early": getattr(sys, "early", None), "ours": os.environ.get("OURS")}
"""
    granted = () if start == "warm" else (f"read:fs:{tmp_path}/data",)
    (tmp_path / "data").mkdir()
    package = kernel(tmp_path / "p", "agent", code, granted)
    about = json.loads((package / "paddock.yaml").read_text())
    about["runtime"]["env"] = {"OURS": "seen", "PYTHONPATH": ".", "PYTHONINSPECT": "1", "LD_PRELOAD": "ours.so"}
    write_json(package / "paddock.yaml", about)
    if start == "cold":  # with this file it would start cold anyhow
        write_file(package / "sitecustomize.py", "import sys; sys.early = 1")
    for minor in range(11, 16):
        packages = package / ".local" / "lib" / f"python3.{minor}" / "site-packages"
        write_file(packages / "ours.pth", "import sys; sys.early = 1")
    take(home, package, "Our.Thing")
    async with opened(home) as host:
        assert await patiently(host.call("Our.Thing", {})) == {"early": None, "ours": "seen"}


async def test_a_call_works_with_threads_timers_and_an_event_loop_of_its_own(home: Home, tmp_path: Path) -> None:
    code = """
import asyncio, os, signal, threading
from concurrent.futures import ThreadPoolExecutor
calls = 0
async def run(request):
    global calls
    calls += 1
    with ThreadPoolExecutor(4) as pool:
        squares = list(pool.map(lambda number: number * number, range(5)))
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(told.wait(), 10)
    with open(os.devnull, "w") as nothing:
        print("x", file=nothing)
    threaded = await asyncio.to_thread(threading.current_thread)
    print("printed by call", request["n"])
    return {"calls": calls, "squares": squares, "apart": threaded is not threading.main_thread()}
"""
    take(home, kernel(tmp_path / "p", "agent", code), "Our.Thing")
    async with opened(home) as host:
        for number in range(2):
            answer = await patiently(host.call("Our.Thing", {"n": number}))
            assert answer == {"calls": 1, "squares": [0, 1, 4, 9, 16], "apart": True}
