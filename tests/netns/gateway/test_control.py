"""The control API of a gateway, and how its process starts and ends.

   gateway b1                              gateway b2
  +------------------------+              +------------------------+
  | hawser0    10.1.0.1/24 |              | hawser0    10.2.0.1/24 |
  | wa       198.18.0.1/24 |--------------| wa       198.18.0.2/24 |
  +------------------------+              +------------------------+

The test of memory has a hub (5) with four branches (1 to 4), each on a cable of its own.
"""

from __future__ import annotations

import copy
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import ROOT
from lab.daemon import hawserd
from lab.gateway.pair import Gateway, Lab, pki
from lab.namespace import run
from lab.waiting import until

root = pytest.mark.root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


def routes(gateway: Gateway) -> list[str]:
    shown = json.loads(run("ip", "-n", gateway.namespace, "-j", "route", "show", "dev", "hawser0"))
    return sorted(route["dst"] for route in shown)


def third_peer() -> dict[str, object]:
    path = {"local": "198.18.0.1", "remote": "198.18.0.3"}
    groups = [{"id": 0, "paths": [path]}]
    return {"branch": "b3", "id": 3, "prefixes": ["10.3.0.0/24"], "groups": groups}


@root
@pytest.mark.parametrize(("given", "taken"), [(0, -10), (3, 3)])
def test_packets_go_before_other_programs(lab: Lab, given: int, taken: int) -> None:
    """Unless another niceness was chosen."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, given)
    try:
        one, _two = lab.pair()
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, own)
    assert one.process
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == taken


@root
def test_a_new_configuration_leaves_other_peers_alone(lab: Lab) -> None:
    one, two = lab.pair()
    before = two.get("/v1/status")["peers"][0]["groups"][0]["remote"]
    new = copy.deepcopy(one.config)
    new["peers"].insert(0, third_peer())
    assert one.ask("PUT", "/v1/config", new)[0] == 200
    assert one.get("/v1/config") == new
    assert routes(one) == ["10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24"]
    assert [peer["up"] for peer in one.get("/v1/status")["peers"]] == [False, True]
    assert len(lab.ping(5)) == 5
    assert one.ask("PUT", "/v1/config", one.config)[0] == 200
    assert routes(one) == ["10.1.0.0/24", "10.2.0.0/24"]
    group = two.get("/v1/status")["peers"][0]["groups"][0]
    assert (group["remote"], group["reconnects"]) == (before, 0), "the connection is the same"
    assert len(lab.ping(5)) == 5


@root
def test_a_changed_group_is_connected_anew(lab: Lab) -> None:
    one, two = lab.pair()
    for gateway in (one, two):
        new = copy.deepcopy(gateway.config)
        new["peers"][0]["groups"][0]["id"] = 4
        assert gateway.ask("PUT", "/v1/config", new)[0] == 200
    until(lambda: one.up() and two.up(), "up on the other port")
    assert one.get("/v1/status")["peers"][0]["groups"][0]["remote"].endswith(f":{0x2004}")


@root
def test_a_bad_configuration_changes_nothing(lab: Lab) -> None:
    one, _ = lab.pair()
    new = copy.deepcopy(one.config)
    new["id"], new["peers"][0]["prefixes"] = 77, ["10.2.0.1/24"]
    status, text = one.ask("PUT", "/v1/config", new)
    assert status == 422
    assert json.loads(text) == {
        "errors": [{"field": "id", "found": 77, "expected": "at most 15"}],
    } or {"id", "peers[0].prefixes[0]"} >= {e["field"] for e in json.loads(text)["errors"]}
    new = copy.deepcopy(one.config)
    new["tun"]["name"] = "other0"
    status, text = one.ask("PUT", "/v1/config", new)
    assert status == 422
    assert json.loads(text)["errors"][0]["field"] == "tun.name"
    assert one.ask("PUT", "/v1/config", "nonsense")[0] == 422
    assert one.get("/v1/config") == one.config
    assert len(lab.ping(3)) == 3


@root
def test_a_configuration_that_the_kernel_refuses_changes_nothing(lab: Lab) -> None:
    one, _ = lab.pair()
    new = copy.deepcopy(one.config)
    new["peers"][0] = third_peer()
    new["source"] = "10.99.0.1"  # not an address of this node: no route can have it
    status, text = one.ask("PUT", "/v1/config", new)
    assert (status, "route" in text) == (409, True)
    assert one.get("/v1/config") == one.config
    assert [peer["branch"] for peer in one.get("/v1/status")["peers"]] == ["b2"]
    assert routes(one) == ["10.1.0.0/24", "10.2.0.0/24"]
    until(one.up, "up again")
    assert len(lab.ping(3)) == 3


@root
def test_paths_that_do_not_exist(lab: Lab) -> None:
    one = lab.gateway(1, 2)
    one.start()
    status, text = one.ask("GET", "/v1/nothing")
    assert (status, list(json.loads(text))) == (404, ["error"])
    status, text = one.ask("DELETE", "/v1/config")
    assert (status, list(json.loads(text))) == (405, ["error"])


@root
def test_metrics_are_openmetrics(lab: Lab) -> None:
    one, _ = lab.pair()
    lab.ping(3)
    status, text = one.ask("GET", "/metrics")
    assert status == 200
    assert text.endswith("# EOF\n")
    assert 'hawser_gateway_group_up{peer="b2",group="0"} 1' in text
    sent = next(
        line for line in text.splitlines() if line.startswith("hawser_gateway_sent_packets_total")
    )
    assert int(sent.split()[-1]) >= 3


@root
def test_the_socket_is_ours_alone(lab: Lab) -> None:
    one = lab.gateway(1, 2)
    one.start()
    path = Path(one.config["control"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = copy.deepcopy(one.config) | {"tun": {"name": "other0", "mtu": 1500, "address": None}}
    (lab.folder / "second.json").write_text(json.dumps(second))
    command = ["ip", "netns", "exec", one.namespace, str(hawserd()), "gateway"]
    done = subprocess.run([*command, "--config", str(lab.folder / "second.json")],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "another daemon holds this control socket" in done.stderr
    assert one.answers()


@root
def test_what_a_killed_gateway_leaves_does_not_hinder_the_next(lab: Lab) -> None:
    one = lab.gateway(1, 2)
    one.start()
    one.stop(9)
    assert Path(one.config["control"]).exists()
    one.start()
    assert one.answers()


@root
def test_it_ends_orderly(lab: Lab) -> None:
    one, two = lab.pair()
    assert one.stop() == 0
    assert not Path(one.config["control"]).exists()
    assert "hawser0" not in run("ip", "-n", one.namespace, "link")
    assert "10.2.0.0/24" not in run("ip", "-n", one.namespace, "route")
    until(lambda: not two.up(), "the other notices")


@root
def test_memory_with_four_branches(tmp_path: Path) -> None:
    """A hub and four branches, all connected: the hub stays under 64 MiB."""
    with Lab(tmp_path) as lab:
        lab.namespace(5)
        for n in range(1, 5):
            lab.namespace(n)
            lab.cable((n, "wa", f"198.18.{n}.1/24"), (5, f"w{n}", f"198.18.{n}.2/24"))
            lab.wans[n] = [f"198.18.{n}.1"]
        lab.wans[5] = ["198.18.1.2"]
        hub = lab.gateway(5, 1)
        hub.config["peers"] = []
        for n in range(1, 5):
            lab.wans[5] = [f"198.18.{n}.2"]
            hub.config["peers"] += lab.gateway(5, n).config["peers"]
            lab.gateways.pop()
        hub.start()
        for n in range(1, 5):
            lab.wans[5] = [f"198.18.{n}.2"]
            lab.gateway(n, 5).start()
        until(hub.up, "all four are up")
        assert hub.memory()[1] < 64 * 1024


def test_a_bad_configuration_ends_with_code_2_and_one_message(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"version": 1, "branch": "b1", "id": 1920, "control": "c", "peers": []}')
    done = subprocess.run([hawserd(), "gateway", "--config", path, "--check"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[0] == f"hawserd: {path}: 3 errors"
    assert {line.split(":")[0].strip() for line in lines[1:]} == {"id", "tun", "transport"}
    path.write_text('{"version": 1')
    done = subprocess.run([hawserd(), "gateway", "--config", path],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert "line 1 column 13" in done.stderr


def test_an_old_name_of_a_field_is_accepted_with_a_warning(tmp_path: Path) -> None:
    document = {
        "version": 1, "branch": "b1", "id": 1, "control": "c", "peers": [],
        "tun": {"name": "hawser0", "mtu": 1500},
        "transport": {"kind": "quic", "tls": pki(tmp_path, ["b1"])["b1"], "lane": {"II": "tcp"}},
    }  # fmt: skip
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    command = [hawserd(), "gateway", "--config", path, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARN" in done.stderr
    assert "configuration field transport.lane was renamed to transport.tcp_proxy" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "gateway-config",
        "gateway-status",
        "gateway-counters",
        "gateway-train",
        "gateway-train-request",
    ],
)
def test_published_schemas_are_fresh(name: str) -> None:
    made = subprocess.run([hawserd(), "schema", name], capture_output=True, text=True, check=True)
    published = ROOT / "schemas" / f"{name}.schema.json"
    assert published.read_text() == made.stdout, (
        "renew it: hawserd schema NAME > schemas/NAME.schema.json"
    )
