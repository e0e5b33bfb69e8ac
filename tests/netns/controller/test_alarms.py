"""Paths that flap or slow down under a controller that chooses paths: alarms, each told once to a
webhook and by e-mail, and few changes of groups, each with its reason.

See tests/lab/controller/network.py for the topology, and wan.py for the emulator before b2.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hawser.node.netns.sysctl import CONGESTION_CONTROL, allow_congestion_control
from lab.controller.network import Deployment
from lab.controller.receivers import Certificates, Mailbox, WebServer
from lab.controller.wan import change, emulated
from lab.daemon import Daemon
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

LIMITED = {"bottleneck": {"rate_bit_per_s": 1_500_000, "queue_bytes": 20_000}}
"""Each direct way from b1 to b2. What comes from b3 is not limited."""
WAYS = [
    {"name": f"b1-{source}{wire}", "wire": f"w{wire}", "source": f"198.18.1{n}.0/24", **LIMITED}
    for n, source in enumerate("ab", 1)
    for wire in "ab"
]
BACK = {"wire": "wa", "direction": "reverse", "destination": "198.18.12.0/24"}
"""The way from port wa of b2 back to port wb of b1."""
PORTS = {f"gw{n}.{port}": {"rate": "20 Mbit/s"} for n in (1, 2, 3) for port in ("wa", "wb")}
PER_HOUR, FLAPS = 2, 3
"""Changes of the groups of two branches, and how often a path of theirs goes and comes back."""
SLOWEST_US = 500_000
"""Three times the lowest RTT also where that was first measured with a full queue (107 ms)."""
DOWN_S, UP_S = 16, 3
"""A path has to be down for ten seconds to be an alarm."""
LONG_S = 240.0
"""Some alarms need a condition that lasts for half a minute, and are cleared a minute after it."""


_EVENT = re.compile(r"^(\w+): alarm (\d+),", re.MULTILINE)
"""An event in an e-mail."""
_SLOW = re.compile(r"b1\.wb>b2\.wb [^;]*has an RTT of \d+ ms \(lowest of a day")
"""In the alarm of the way that slows down. Others may lose packets at the same time."""


class Told:
    """What receivers at the controller's machine were told."""

    def __init__(self, network: Deployment, folder: Path) -> None:
        certificates = Certificates(folder)
        self.web: WebServer = network.controller.within(lambda: WebServer(certificates))
        self.mailbox: Mailbox = network.controller.within(lambda: Mailbox(certificates))
        self._authority = certificates.authority

    def subscribe(self, network: Deployment) -> None:
        hook = {"type": "webhook", "url": f"{self.web.url}/hook"}
        mail = {
            "type": "mail",
            "host": "localhost",
            "port": self.mailbox.port,
            "user": "hawser",
            "password": "mail secret",
            "sender": "hawser@acme.example",
            "recipients": ["noc@acme.example"],
        }
        for name, receiver in (("hook", hook), ("noc", mail)):
            body = receiver | {"authority": self._authority}
            network.controller.ask("PUT", f"/v1/receivers/{name}", body)

    def of(self, event: str) -> set[str]:
        """Kinds of the alarms of which the webhook was told such an event."""
        return {each["kind"] for each in self._alarms() if each["event"] == event}

    def events(self) -> Counter[tuple[str, str, int]]:
        """How often each receiver was told of each event of each alarm."""
        web = [("hook", each["event"], each["number"]) for each in self._alarms()]
        texts = (str(message.get_payload()) for _, message in self.mailbox.got)
        lines = (line for text in texts for line in _EVENT.findall(text))
        return Counter([*web, *(("noc", event, int(number)) for event, number in lines)])

    def by(self, receiver: str) -> set[tuple[str, int]]:
        """Events, each with the number of its alarm, of which a receiver was told."""
        return {(event, number) for name, event, number in self.events() if name == receiver}

    def _alarms(self) -> list[dict[str, Any]]:
        return [each for _, content in self.web.got for each in json.loads(content)["alarms"]]

    def stop(self) -> None:
        self.web.stop()
        self.mailbox.stop()


@contextmanager
def watched(folder: Path) -> Iterator[tuple[Deployment, Daemon, Told]]:
    """Three branches with automatic paths, an emulator before b2, and receivers of alarms."""
    with Deployment(folder, (1, 2, 3)) as network:
        settings = network.controller.directory / "controller.json"
        rules = {"paths": {"per_hour": PER_HOUR}, "alarms": {"networks": ["127.0.0.0/8"]}}
        settings.write_text(json.dumps(json.loads(settings.read_text()) | rules))
        told = Told(network, folder)
        try:
            with emulated(network.lab, 2, [*WAYS, {"name": "back", **BACK}]) as wan:
                network.controller.begin()
                told.subscribe(network)
                network.controller.patch({"overlay": {"paths": "automatic"}, "ports": PORTS})
                network.join_all()
                until(network.connected, "every branch reaches every other")
                until(network.controller.settled)
                yield network, wan, told
        finally:
            told.stop()


def opened(network: Deployment) -> dict[str, dict[str, Any]]:
    """Alarms from b1 to b2 that are not cleared, by kind."""
    found = network.controller.ask("GET", "/v1/alarms")
    return {each["kind"]: each for each in found if each["branches"] == ["b1", "b2"]}


def changes(network: Deployment) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = network.controller.ask("GET", "/v1/paths/changes")
    return [each for each in found if each["branches"] == ["b1", "b2"]]


def cut(wan: Daemon, *, is_cut: bool) -> None:
    """Let nothing pass between wb of b1 and wa of b2, or everything."""
    lost = {"model": "bernoulli", "probability": 1} if is_cut else None
    for way in ("b1-ba", "back"):
        change(wan, way, loss=lost)


def impair(wan: Daemon, network: Deployment) -> None:
    """Let one way flap, and another one slow down by 10 ms each second, until both are told."""
    seen: dict[str, dict[str, Any]] = {}
    delay = 0
    for _ in range(FLAPS):
        for second in range(DOWN_S + UP_S):
            cut(wan, is_cut=second < DOWN_S)
            delay = min(delay + 10_000, SLOWEST_US)
            change(wan, "b1-bb", delay_us=delay)
            seen |= opened(network)
            time.sleep(1)

    def both() -> bool:
        seen.update(opened(network))
        detail = seen["path_degraded"]["detail"] if "path_degraded" in seen else ""
        return "path_down" in seen and _SLOW.search(detail) is not None

    try:
        until(both, "both are told", LONG_S)
    except AssertionError as error:
        error.add_note(f"{seen}; {measured(network)}")
        raise


def measured(network: Deployment) -> str:
    """What b1 has measured of its paths to b2, and when these were changed."""
    number = network.controller.gateways()["b1"]["id"]
    values = network.controller.ask("GET", f"/v1/gateways/{number}/statistics")["values"]
    paths = {name: value for name, value in values.items() if name.startswith("path/b2/")}
    return f"{paths}; changes: {[each['reason'] for each in changes(network)]}"


def test_alarms_are_told_once_and_changes_of_paths_are_few(tmp_path: Path) -> None:
    with watched(tmp_path) as (network, wan, told):
        # What waits at b1 says that it would send more. BBR lets hardly anything wait.
        allow_congestion_control("cubic")
        network.lab.at(1, "sysctl", "-qw", f"{CONGESTION_CONTROL}=cubic")
        transfer = Transfer(network.lab, port=7001, pause=0.005)
        until(lambda: changes(network), "b3 helps out")
        impair(wan, network)
        cut(wan, is_cut=False)
        change(wan, "b1-bb", delay_us=0)
        transfer.end()
        until(lambda: not opened(network), "alarms are cleared", LONG_S)
        found = changes(network)
        assert 0 < len(found) <= PER_HOUR < FLAPS
        for each in found:
            assert "b1 and b2 demand" in each["reason"]
            assert each["figures"]["will_carry_bps"] > each["figures"]["carries_bps"]
        explained(network, found[0])
        until(lambda: told.of("cleared") == told.of("raised"), "the end is told too")
        until(lambda: told.by("hook") == told.by("noc"), "by e-mail as by the webhook")
        assert set(told.events().values()) == {1}, told.events()
        assert {"path_down", "path_degraded"} <= told.of("raised")


def explained(network: Deployment, last: dict[str, Any]) -> None:
    """The way of a flow is explained by the last change and its figures."""
    found = network.controller.ask("GET", "/v1/explain?source=b1&destination=b2")
    assert found["change"]["number"] == last["number"]
    text = "\n".join(found["steps"])
    assert last["reason"] in text
    assert "Mbit/s" in text
