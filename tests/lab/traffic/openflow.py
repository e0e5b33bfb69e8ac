"""Traffic by subflow 1 of the labs of lab/plans/switches.py, and what the controller says of it."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import Any

from hawser.control.client import ControlError, DaemonClient
from hawser.driver.daemon import SupervisedProcess
from hawser.driver.local import LocalLab
from hawser.node.netns import namespace
from hawser.overlay.config.entry import Entry
from hawser.overlay.config.openflow import ControllerConfig
from lab.traffic.live import LiveTransfer, live_transfer
from lab.waiting import until
from worked_example import AGENT, address

FULL = 15 * 16 * 16 * 2
"""Entries of the largest table: 15 branches, 16 groups, 16 paths, both directions."""
RATE = 20e6
"""Bits a second that `paced` sends."""
_WINDOW = 100
"""Datagrams on their way at most; a switch's socket holds over 200."""
_SO_RCVBUFFORCE = 33


def controller(lab: LocalLab) -> DaemonClient:
    return DaemonClient(lab.daemons["ssc"].control)


def ready(lab: LocalLab) -> bool:
    try:
        return controller(lab).status().connected
    except ControlError:
        return False


def counts(lab: LocalLab, gateway: str) -> dict[str, Any]:
    """Counters of a switch by name of entry or cause, as packets and bytes, or packets."""
    found = next(s for s in controller(lab).counters()["switches"] if s["name"] == gateway)
    entries = {each["name"]: (each["packets"], each["bytes"]) for each in found["entries"]}
    return {**entries, **found["drops"]}


def process(lab: LocalLab, name: str) -> SupervisedProcess:
    return next(each for each in lab.switches if each.name == name)


def bridge(lab: LocalLab, gateway: str, verb: str, *words: str) -> list[str]:
    """Give a command of ovs-ofctl for the bridge of a gateway."""
    socket_ = f"unix:{lab.directory / f'{gateway}.ofs' / 'ofs_br.mgmt'}"
    return ["ovs-ofctl", "-O", "OpenFlow13", verb, socket_, *words]


def dumped(lab: LocalLab, gateway: str) -> str:
    """Flows of a switch, as the switch itself lists them."""
    return lab.nodes[gateway].run(bridge(lab, gateway, "dump-flows"), timeout=120).stdout


def packets_of_flows(lab: LocalLab, gateway: str) -> int:
    """Packets that have met flows with addresses of subflow 1, as the switch itself counts."""
    lines = [line for line in dumped(lab, gateway).splitlines() if "tp_" in line]
    return sum(int(n) for line in lines for n in re.findall(r"n_packets=(\d+)", line))


def full_table(lab: LocalLab) -> ControllerConfig:
    """The controller's configuration, with the largest table at gateway 3."""
    config = controller(lab).config(ControllerConfig)
    own = next(each for each in config.switches if each.name == "gw3")
    others = tuple(_other(own.entries[0], number) for number in range(FULL))
    full = own.model_copy(update={"entries": (*own.entries, *others)})
    switches = tuple(full if each is own else each for each in config.switches)
    return config.model_copy(update={"switches": switches})


def _other(entry: Entry, number: int) -> Entry:
    source = IPv4Address(f"203.0.{number // 200}.{number % 200 + 1}")
    match = entry.match.model_copy(update={"source": source})
    return entry.model_copy(update={"name": f"other {number}", "match": match})


def udp_socket(lab: LocalLab, node: str) -> socket.socket:
    return namespace.inside(
        lab.nodes[node].namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )


@contextmanager
def paced(lab: LocalLab) -> Iterator[LiveTransfer]:
    """Send 20 Mbit/s at most by a TCP connection of subflow 1."""
    ends = lab.nodes["gw1"], lab.nodes["gw2"], address("2a")
    pause = (1 << 14) * 8 / RATE
    with live_transfer(*ends, source=address("1a"), port=AGENT, pause=pause) as going:
        yield going


class Numbered:
    """Numbered datagrams by subflow 1."""

    def __init__(self) -> None:
        self.sent = 0
        self.came: list[int] = []
        self.stopped = threading.Event()

    def more(self, count: int) -> None:
        """Wait until this number of further datagrams has arrived."""
        before = len(self.came)
        until(lambda: len(self.came) >= before + count, f"{count} more datagrams have come")

    def all_came(self) -> None:
        """Send no more, and wait for all; each came once.

        Raises:
            AssertionError: some did not come, or came twice.
        """
        self.stopped.set()
        until(lambda: len(self.came) >= self.sent, "all datagrams have come", 30)
        assert sorted(self.came) == list(range(self.sent))


@contextmanager
def numbered(lab: LocalLab, rate: float) -> Iterator[Numbered]:
    """Send so many numbered datagrams a second at most, and take them in at gateway 2.

    No more than a queue holds are on their way at once: a slow machine loses none.
    """
    flow, over = Numbered(), threading.Event()
    with udp_socket(lab, "gw1") as out, udp_socket(lab, "gw2") as into:
        out.bind((address("1a"), 0))
        into.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 * 1024 * 1024)
        into.bind((address("2a"), AGENT))
        into.settimeout(0.1)

        def send() -> None:
            while not flow.stopped.wait(1 / rate):
                if flow.sent - len(flow.came) < _WINDOW:
                    flow.sent += 1
                    datagram = (flow.sent - 1).to_bytes(4) + bytes(96)
                    out.sendto(datagram, (address("2a"), AGENT))

        def take() -> None:
            while not over.is_set():
                try:
                    flow.came.append(int.from_bytes(into.recv(2048)[:4]))
                except TimeoutError:
                    continue

        threads = [threading.Thread(target=send), threading.Thread(target=take)]
        for thread in threads:
            thread.start()
        try:
            yield flow
        finally:
            flow.stopped.set()
            over.set()
            for thread in threads:
                thread.join()
