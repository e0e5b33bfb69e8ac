"""An emulator before the WAN ports of one branch of a deployment.

 hawsergw-PID-N-0            hawsergw-PID-N-7            hawsergw-PID-N-n
+----------------+          +----------------+          +----------------+
| the internet   |          |  hawserd wan   |          |      gateway n |
|            ina |----------| ina        wna |----------| wa             |
|            inb |----------| inb        wnb |----------| wb             |
+----------------+          +----------------+          +----------------+
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lab.daemon import Daemon
from lab.gateway.pair import Lab
from lab.gateway.switch import next_hop
from lab.namespace import run

NUMBER = 7
_OFFLOADS = ("tso", "off", "gso", "off", "gro", "off")

Impairments = Mapping[str, Any]
"""Of packets into a branch, as `paths` of the emulator's configuration has them."""


@contextmanager
def emulated(lab: Lab, branch: int, paths: Sequence[Impairments]) -> Iterator[Daemon]:
    """Emulate the ways to both ports of a branch; `wire` of a path is `wa` or `wb`."""
    name = lab.namespace(NUMBER)
    for letter in "ab":
        _insert(lab, name, branch, letter)
    wires = [
        {"name": f"w{letter}", "ends": [f"i{branch}{letter}", f"w{branch}{letter}"]}
        for letter in "ab"
    ]
    config = {
        "version": 1,
        "control": str(lab.folder / "wan.sock"),
        "wires": wires,
        "paths": [{"direction": "forward", **path} for path in paths],
    }
    daemon = Daemon(name, "wan", config, lab.folder, "wan")
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop(signal.SIGKILL)


def _insert(lab: Lab, name: str, branch: int, letter: str) -> None:
    port = f"{branch}{letter}"
    internet, inside = lab.namespaces.name(0), f"w{port}"
    run("ip", "-n", internet, "link", "set", f"i{port}", "netns", name, "name", inside)
    run("ip", "-n", name, "link", "set", inside, "up")
    ends = (["name", f"i{port}", "netns", each] for each in (internet, name))
    run("ip", "link", "add", *next(ends), "type", "veth", "peer", *next(ends))
    run("ip", "-n", internet, "address", "add", f"{next_hop(port)}/24", "dev", f"i{port}")
    for each in (internet, name):
        run("ip", "-n", each, "link", "set", f"i{port}", "up")
    for number, interface in ((0, f"i{port}"), (NUMBER, inside), (branch, f"w{letter}")):
        lab.at(number, "ethtool", "-K", interface, *_OFFLOADS)


def change(wan: Daemon, path: str, **values: object) -> None:
    """Change some values of a path at once."""
    status, answer = wan.call("PATCH", f"/v1/paths/{path}", values)
    assert status == 200, answer
