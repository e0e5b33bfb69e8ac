"""Traffic through the chains of a lab: echoes, captures, and what functions counted of it."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from hawser.control.client import DaemonClient
from hawser.control.model import FunctionCounters
from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode
from lab.namespace import run
from lab.plans.chains import SERVER
from lab.waiting import PATIENCE, until

SOME = 40
"""Echoes or packets that show that a state is reached and lasts."""


def ping_all(
    namespace: str, target: str, count: int, *options: str, patience: float = PATIENCE
) -> int:
    """Send `count` echoes at once, wait for every answer, and count them.

    `ping` alone waits for its last answer only as long as for an earlier one. Here it is `patience`
    seconds, so it is for tests in which all are answered.
    """
    wait = f"{patience:g}"
    at_once = ["-q", "-l", str(count), "-c", str(count), "-i", wait, "-W", wait]
    command = ["ip", "netns", "exec", namespace, "ping", *at_once, *options, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout.split(" received")[0].split()[-1])


def passed(lab: LocalLab, function: str, unit: str = "packets") -> int:
    """Packets, or bytes, that arrived at a function, on any port."""
    ports = lab.nodes[function].counters().items()
    return sum(counted[f"rx_{unit}"] for port, counted in ports if port.startswith("f"))


def counters(lab: LocalLab, daemon: str) -> FunctionCounters:
    """What a daemon has counted."""
    with DaemonClient(lab.daemons[daemon].control) as control:
        return control.function_counters()


def no_hop(lab: LocalLab) -> int:
    """Packets dropped because no hop was found."""
    return sum(counters(lab, name).drops["no_hop"] for name in ("n1", "n2"))


def lost(lab: LocalLab, steering: str) -> int:
    """Packets that reached function x and did not leave it."""
    match steering:
        case "nsh":
            return counters(lab, "n2").drops["no_hop"]
        case "srv6":
            ways = counters(lab, "x-proxy").proxies
            return sum(way.toward.packets - way.returned.packets for way in ways)
        case _:
            counted = kernel_counts(lab.nodes["x"].namespace, "Ip")
            return counted["InReceives"] - counted["ForwDatagrams"]


def missed(lab: LocalLab) -> int:
    """Echoes that the client sent and that have not reached the server (yet)."""
    sent = kernel_counts(lab.nodes["client"].namespace, "Icmp")["OutEchos"]
    return sent - kernel_counts(lab.nodes["server"].namespace, "Icmp")["InEchos"]


def kernel_counts(namespace: str, protocol: str) -> dict[str, int]:
    """What the kernel counted of a protocol, `Ip` or `Icmp` (RFC 4293, RFC 2011)."""
    text = run("ip", "netns", "exec", namespace, "cat", "/proc/net/snmp")
    names, values = re.findall(rf"^{protocol}: (.*)$", text, re.M)
    return dict(zip(names.split(), map(int, values.split()), strict=True))


def ended(lab: LocalLab, function: str) -> bool:
    """Whether a function's process has ended, and with it what it had attached."""
    return not {**lab.daemons, **lab.programs}[function].running()  # type: ignore[union-attr]


class Echoes:
    """Echoes from client to server every 5 ms, each with its number, until they are stopped."""

    def __init__(self, lab: LocalLab) -> None:
        self._client = lab.nodes["client"]
        self._folder = tempfile.TemporaryDirectory(prefix="hawser-echoes-")
        self._file = Path(self._folder.name) / "answers"
        self._earlier = kernel_counts(self._client.namespace, "Icmp")["OutEchos"]
        inside = self._client.attached(["ping", "-D", "-n", "-i", "0.005", SERVER])
        with self._file.open("wb") as file:
            self._process = subprocess.Popen(inside, stdout=file)

    def __enter__(self) -> Echoes:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def sent(self) -> int:
        """Number of the last echo that was sent."""
        return kernel_counts(self._client.namespace, "Icmp")["OutEchos"] - self._earlier

    def answered(self) -> dict[int, float]:
        """Numbers of the echoes that were answered so far, and when that was."""
        line = re.compile(r"^\[([\d.]+)\] \d+ bytes.* icmp_seq=(\d+) ", re.M)
        return {int(number): float(at) for at, number in line.findall(self._file.read_text())}

    def answers_after(self, number: int) -> int:
        """Wait until an echo behind this one was answered; the first of those."""
        until(lambda: max(self.answered(), default=0) > number, "an answer")
        return min(each for each in self.answered() if each > number)

    def all_answered(self, first: int, count: int = SOME) -> None:
        """Wait until each of `count` echoes was answered."""
        wanted = set(range(first, first + count))
        until(lambda: wanted <= self.answered().keys(), f"echoes from {first} on are answered")

    def unanswered(self) -> int:
        """Echoes without an answer, with those that are still under way."""
        answered = len(self.answered())
        return self.sent() - answered

    def stop(self) -> None:
        """Send no more."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE)

    def longest_gap(self, since: float) -> float:
        """Longest time without an answer since a moment (of `time.time`), s."""
        times = [at for at in self.answered().values() if since - 0.1 < at]
        return max(later - earlier for earlier, later in pairwise(times))


def pass_by(lab: LocalLab, function: str, echoes: Echoes, dropped: Callable[[], int]) -> int:
    """Wait until echoes bypass a function that was killed, and check that all of them do.

    Returns:
        Number of the last echo that was seen to go past it.
    """
    until(lambda: ended(lab, function), f"{function} ends")
    first = echoes.answers_after(echoes.sent())
    echoes.all_answered(first)
    before, came = dropped(), passed(lab, function)
    echoes.all_answered(first + SOME)
    assert dropped() == before, "packets that bypass the function are not dropped"
    assert passed(lab, function) - came < SOME / 4, "it gets no packets"
    return first + 2 * SOME - 1


def drop_all(lab: LocalLab, function: str, echoes: Echoes, dropped: Callable[[], int]) -> None:
    """Wait until echoes are dropped at a function that was killed, and check that all of them are.

    The echoes are stopped.
    """
    before = dropped()
    until(lambda: ended(lab, function), f"{function} ends")
    until(lambda: dropped() > before + SOME / 2, "the chain is closed")
    last, so_far = echoes.sent(), dropped()
    until(lambda: dropped() > so_far + SOME and echoes.sent() > last + SOME)
    echoes.stop()
    assert max(echoes.answered()) <= last, "nothing bypasses the function"


@contextmanager
def sniffed(
    node: NamespaceNode, interface: str, what: str = ""
) -> Iterator[Callable[[], list[str]]]:
    """Watch an interface; tcpdump's line of each packet so far. `what`: options and a filter.

    In immediate mode the capture buffer has a place of the longest length for each packet.
    """
    with tempfile.TemporaryDirectory(prefix="hawser-sniffed-") as folder:
        log = Path(folder) / "tcpdump.log"
        options = [
            "-nn",
            "-l",
            "--immediate-mode",
            "-s",
            "256",
            "-B",
            "16384",
            "-i",
            interface,
            *what.split(),
        ]
        process = node.start(["tcpdump", *options], log=log)
        try:
            until(lambda: "listening on" in log.read_text(), "tcpdump captures")
            yield lambda: log.read_text().splitlines()
        finally:
            process.stop()
