"""Load generator between two nodes: calibration and single trials."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path, PurePosixPath

from hawser.node.base import Node
from hawser.overlay.config.load import Backend, LoadConfig
from hawser.probe.base import Context, ProbeError
from hawser.probe.endpoint import endpoints
from hawser.probe.load import config, daemon
from hawser.probe.load.config import Amount
from hawser.probe.load.daemon import LoadResult, Received, Sent
from hawser.probe.load.port import SendingPort, receiving_interface, sending_port, taken_on
from hawser.spec.measurement import Traffic

HEADROOM = 0.8
"""Share of the generator's measured limit up to which its results are trusted."""

_CALIBRATION_FRAMES = 400_000
_SLACK_SECONDS = 30.0
_UNSENT_MAX = 0.0005
"""Share of frames that may stay unsent in a trial, besides one frame. It is below the finest
resolution of a search."""
_ATTEMPTS = 8
"""Attempts per trial. On an idle virtual machine with two cores, one in four trials of 1 s is
interrupted for more than 0.5 ms."""
_RUNS = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """Result of a trial: frames sent and frames received."""

    sent: Sent
    received: Received
    discarded: tuple[int, ...] = ()
    """Frames left unsent by each attempt before, which was repeated for that reason."""

    @property
    def lost(self) -> int:
        """Frames sent but not received. Negative only if the counters are wrong."""
        return self.sent.frames - self.received.unique


class Generator:
    """Sends frames from one node to another. Created by `open_generator`."""

    def __init__(
        self,
        traffic: Traffic,
        nodes: tuple[Node, Node],
        ports: tuple[SendingPort, str],
        addresses: tuple[config.Address, config.Address],
        backend: Backend,
        *,
        hawserd: Path,
        drain: float,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._traffic = traffic
        self._source, self._target = nodes
        self._port, self._interface = ports
        self._addresses = addresses
        self.backend = backend
        self._hawserd = hawserd
        self._drain = drain
        self._sleep = sleep
        self._clock = clock
        self._run = int.from_bytes(os.urandom(2))
        self._name = f"load-{secrets.token_hex(3)}"
        """Unique name of its files on the nodes, because several generators may run there."""

    def _start(self, node: Node, part: str) -> daemon.Start:
        return daemon.Start(node, self._hawserd, f"{self._name}-{part}")

    def trial(self, amount: Amount, end: float = math.inf, losses: Sequence[float] = ()) -> Outcome:
        """Send, wait until frames in flight have arrived, then read the counters.

        A trial in which the generator could not keep up is repeated; the outcome tells how often.

        Args:
            amount: what is sent.
            end: time on the clock after which no repetition may last.
            losses: shares of the frames due, 0 to 1, that a search compares the loss with. A trial
                is not repeated if the frames that were not sent cannot change any comparison.

        Raises:
            ProbeError: the generator never kept up, more frames arrived than were sent, or a
                daemon failed.
        """
        discarded: list[int] = []
        while True:
            outcome = self._once(amount)
            if outcome.lost < 0:
                raise ProbeError(f"{-outcome.lost} frames came that were never sent")
            sent = outcome.sent
            if _kept_up(sent) or (losses and all(_decided(outcome, loss) for loss in losses)):
                return replace(outcome, discarded=tuple(discarded))
            discarded.append(sent.unsent)
            if len(discarded) == _ATTEMPTS or self._clock() + _seconds(amount) > end:
                break
        raise ProbeError(
            f"the generator could not keep up in {len(discarded)} attempts: {sent.unsent} of "
            f"{sent.scheduled} frames were not sent ({sent.refused} refused by the device)"
        )

    def _once(self, amount: Amount) -> Outcome:
        self._run = (self._run + 1) % _RUNS
        control = PurePosixPath(self._target.directory, f"{self._name}-{self._run}.sock")
        meter = config.receiver(self._traffic, self._run, self._interface, self.backend, control)
        with daemon.running(self._start(self._target, "meter"), meter, self._sleep) as finish:
            sending = self._sending(amount)
            sent = daemon.run(self._start(self._source, "sender"), sending, _longest(amount))
            self._sleep(self._drain)
            return _outcome(sent, finish())

    def _sending(self, amount: Amount) -> LoadConfig:
        source, target = self._addresses
        stream = config.stream(self._traffic, source, target, self._port.next_hop, amount)
        return config.sender(self._traffic, self._run, self._port.interface, self.backend, stream)

    def calibrate(self) -> float:
        """Measure the frames per second that the generator can send to a sink on the sending node.

        Raises:
            ProbeError: the rate could not be measured.
        """
        traffic = self._traffic
        source, target = self._addresses
        amount = Amount(frames=_CALIBRATION_FRAMES, rate=None)
        stream = config.stream(traffic, source, target, "02:00:00:00:00:02", amount)
        with _own_sink(self._source) as ends:
            both = config.both(traffic, stream, self.backend, ends)
            result = daemon.run(self._start(self._source, "both"), both, _longest(amount))
        if result.received is None or result.received.seconds <= 0:
            raise ProbeError("the generator sent nothing to its own sink")
        return result.received.unique / result.received.seconds


def _kept_up(sent: Sent) -> bool:
    return sent.unsent <= max(1, _UNSENT_MAX * sent.scheduled)


def _decided(outcome: Outcome, loss: float) -> bool:
    """Whether frames that were not sent cannot change if more than this share of all is lost.

    What kept the generator from sending may have lost as many frames on the path.
    """
    allowed, unsent = loss * outcome.sent.scheduled, outcome.sent.unsent
    return outcome.lost - unsent > allowed or outcome.lost + unsent <= allowed


@contextlib.contextmanager
def open_generator(
    context: Context,
    traffic: Traffic,
    *,
    drain: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Generator]:
    """Open a generator from `from` to `to`; the target takes the destination addresses.

    Raises:
        ProbeError: there is no route to the target, or no backend works on it.
    """
    source, target = endpoints(context.lab, traffic)
    addresses = ip_address(source.address), ip_address(target.address)
    interface = receiving_interface(target.node, addresses[1])
    wanted = config.target_addresses(traffic, addresses[1])
    with taken_on(target.node, interface, wanted):
        port = sending_port(source.node, addresses[0], wanted[0])

        def generator(backend: Backend) -> Generator:
            nodes, ports = (source.node, target.node), (port, interface)
            return Generator(
                traffic,
                nodes,
                ports,
                addresses,
                backend,
                hawserd=context.lab.hawserd,
                drain=drain,
                sleep=sleep,
            )

        yield generator(traffic.backend) if traffic.backend != "auto" else _choose(generator)


_TRY = Amount(frames=100, rate=1000.0)


def _choose(make: Callable[[Backend], Generator]) -> Generator:
    """Choose XDP if its frames arrive, else packet sockets.

    On a veth pair, XDP works only if the other end has an XDP program or GRO. That end belongs to
    another node, so the only way to know is to try.
    """
    generator = make("xdp")
    with contextlib.suppress(ProbeError):
        if generator.trial(_TRY).received.unique > 0:
            return generator
    return make("packet")


@contextlib.contextmanager
def _own_sink(node: Node) -> Iterator[tuple[str, str]]:
    """Create two namespaces on a node, joined by a veth pair whose ends are both named `load`."""
    prefix = f"hawserc{os.getpid()}-{int.from_bytes(os.urandom(3)):06x}"
    ends = f"{prefix}a", f"{prefix}b"
    try:
        for end in ends:
            node.run(["ip", "netns", "add", end], timeout=10)
        peer = ["peer", "name", "load", "netns", ends[1]]
        link = ["link", "add", "name", "load", "type", "veth", *peer]
        node.run(["ip", "-n", ends[0], *link], timeout=10)
        for end in ends:
            node.run(["ip", "-n", end, "link", "set", "load", "up"], timeout=10)
        yield ends
    finally:
        for end in ends:
            node.run(["ip", "netns", "del", end], timeout=10, check=False)


def _longest(amount: Amount) -> float:
    return _SLACK_SECONDS + (_seconds(amount) if amount.rate else 60.0)


def _seconds(amount: Amount) -> float:
    return amount.frames / amount.rate if amount.rate else 0.0


def _outcome(sent: LoadResult, received: LoadResult) -> Outcome:
    if sent.sent is None or received.received is None:
        raise ProbeError("hawserd load gave half a result")
    return Outcome(sent.sent, received.received)
