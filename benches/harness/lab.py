"""Network namespaces joined by veth links, and the processes in them.

    with Lab() as lab:
        a, b = lab.pair()              # 198.18.0.1 -- wan0 -- 198.18.0.2
        a.start(["some-daemon"])

Everything is removed when the block ends, however it ends. The names of namespaces and control
groups contain the process id of their bench. If a bench is killed with SIGKILL, its processes die
with it, and the next bench to start removes its namespaces and groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.bench import SampleError
from hawser.node.base import NodeError
from hawser.node.netns import cgroup

_PREFIX = "hawserbench"
_RUN = Path("/run/netns")


class Daemon:
    """A process in a namespace; its output is kept in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                # The kernel kills the process when the bench dies, even by SIGKILL.
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches only the bench, which then cleans up
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def running(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def said(self, lines: int = 5) -> str:
        """The last lines of its output."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def wait(self, timeout: float) -> str:
        """Wait until the process exits; return its whole output.

        Raises:
            SampleError: the process failed, or takes longer than `timeout` seconds.
        """
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise SampleError(f"{self._name()} did not end in {timeout:.0f} s") from None
        if status != 0:
            raise SampleError(f"{self._name()} failed: {self.said()}")
        return self._log.read_text(errors="replace")

    def stop(self, grace: float = 2.0) -> None:
        """Send SIGTERM, and SIGKILL after `grace` seconds."""
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _name(self) -> str:
        return self._log.name.partition(".")[0]


class Namespace:
    """A network namespace, used as a machine. `directory` holds the files of its processes."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self._daemons: list[Daemon] = []
        directory.mkdir()
        _ip("netns", "add", name)
        # IPv6 neighbour discovery would add to the frames that a bench counts.
        self.run(["sysctl", "--quiet", "--write", "net.ipv6.conf.default.disable_ipv6=1"])
        self.ip("link", "set", "lo", "up")

    def command(self, command: Sequence[str]) -> list[str]:
        """Prefix `command` so that it runs in this namespace."""
        return ["ip", "netns", "exec", self.name, *command]

    def ip(self, *arguments: str) -> str:
        """Run `ip ARGUMENTS` in this namespace.

        Raises:
            SampleError: the command failed.
        """
        return _ip("-n", self.name, *arguments)

    def run(self, command: Sequence[str], timeout: float = 10) -> str:
        """Run a command until it exits; return its standard output.

        Raises:
            SampleError: the command failed or took longer than `timeout` seconds.
        """
        return self.start(command).wait(timeout)

    def start(self, command: Sequence[str]) -> Daemon:
        """Start a command in the background."""
        log = self.directory / f"{Path(command[0]).name}.{len(self._daemons)}.log"
        daemon = Daemon(self.command(command), log)
        self._daemons.append(daemon)
        return daemon

    def remove(self) -> None:
        """Stop its processes, and remove the namespace with all its interfaces."""
        for daemon in reversed(self._daemons):
            daemon.stop()
        with contextlib.suppress(SampleError):
            _ip("netns", "del", self.name)


class Lab:
    """Namespaces and links of one sample."""

    _count = 0

    def __init__(self) -> None:
        Lab._count += 1
        self._name = f"{_PREFIX}-{os.getpid()}-{Lab._count}"
        self._namespaces: list[Namespace] = []
        self._links = 0
        self._groups: list[str] = []
        self._directory = tempfile.TemporaryDirectory(prefix=f"{self._name}-")

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        with _undisturbed():
            for namespace in self._namespaces:
                namespace.remove()
            for group in self._groups:
                cgroup.remove(group)
            self._directory.cleanup()

    def namespace(self, label: str) -> Namespace:
        """Create a namespace without links."""
        directory = Path(self._directory.name) / label
        with _undisturbed():  # else Ctrl-C could leave a namespace that nothing removes
            made = Namespace(f"{self._name}-{label}", directory)
            self._namespaces.append(made)
        return made

    def link(self, a: Namespace, b: Namespace) -> tuple[str, str]:
        """Join two namespaces by an unlimited veth link; return the addresses of both ends.

        The n-th link (from 0) is device `wanN` at both ends, with 198.18.N.1/24 and 198.18.N.2/24
        (benchmarking addresses, RFC 2544 section C.2.2).
        """
        number, self._links = self._links, self._links + 1
        device = f"wan{number}"
        a.ip("link", "add", device, "type", "veth", "peer", "name", device, "netns", b.name)
        addresses = (f"198.18.{number}.1", f"198.18.{number}.2")
        for end, address in zip((a, b), addresses, strict=True):
            end.ip("address", "add", f"{address}/24", "dev", device)
            end.ip("link", "set", device, "up")
        return addresses

    def pair(self) -> tuple[Namespace, Namespace]:
        """Create two linked namespaces with 198.18.0.1 and 198.18.0.2 on `wan0`."""
        a, b = self.namespace("a"), self.namespace("b")
        self.link(a, b)
        return a, b

    def hold(self, daemon: Daemon, cores: float) -> None:
        """Hold a running daemon to so many cores, by a control group of its own.

        Raises:
            SampleError: the machine has no control groups with CPU quotas.
        """
        group = f"{self._name}-{len(self._groups)}"
        try:
            with _undisturbed():
                cgroup.create(group, cores)
                self._groups.append(group)
            cgroup.hold(group, daemon.pid)
        except NodeError as error:
            raise SampleError(str(error)) from error


def until(
    condition: Callable[[], bool],
    what: str,
    timeout: float = 10,
    daemons: Sequence[Daemon] = (),
) -> None:
    """Wait until a condition holds. It can hold only while all of `daemons` run.

    Raises:
        SampleError: the timeout passed (seconds), or a daemon exited. The text names `what` was
            expected and quotes the last output of the daemons.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        late = time.monotonic() > deadline
        if late or not all(daemon.running() for daemon in daemons):
            why = f"not within {timeout:.0f} s" if late else "a daemon ended"
            raise SampleError("; ".join([f"{what}: {why}", *(d.said() for d in daemons)]))
        time.sleep(0.02)


def sweep() -> list[str]:
    """Remove namespaces and groups left by benches that no longer run; return the namespaces."""
    left = [path.name for path in _RUN.glob(f"{_PREFIX}-*") if not _alive(path.name)]
    for name in left:
        with contextlib.suppress(SampleError):  # another bench may sweep at the same time
            _ip("netns", "del", name)
    for name in cgroup.names(f"{_PREFIX}-"):
        if not _alive(name):
            with contextlib.suppress(NodeError):
                cgroup.remove(name)
    return left


def _alive(name: str) -> bool:
    return Path(f"/proc/{name.split('-')[1]}").exists()


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SampleError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM until the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
