"""Forwarders and classifiers notice by themselves which functions are down, and act on it.

   client --in-- n1 --between-- n2        functions f1 and f3 (or g) are at n1, f2 (or x) is at n2
                 |                        (drawn in lab/plans/chains.py)
   server --out--+

With NSH, n1 and n2 are forwarders, and each checks what stands beside it; where a chain fails open,
n1, which classifies, checks all its functions. With SRv6 and routes a classifier at n1 does.

The test of a forwarder alone uses the chain drawn in lab/function/chain.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from documents import Document, with_
from hawser.control.client import DaemonClient
from hawser.control.model import FunctionStatus
from hawser.driver.local import LocalLab
from hawser.driver.roles import hawserd
from hawser.node.change import Settings
from hawser.overlay.config.function import SffConfig, Target
from hawser.overlay.config.health import (
    ByForwarding,
    ByHttp,
    Check,
    Function,
    HttpEndpoint,
    Instance,
    Through,
)
from hawser.overlay.lab.plan import NetworkPlan, SffDaemon
from lab.function.chain import FORWARD, REVERSE, Chain, hop_packets
from lab.plans.chains import FILTER, SLEEPER, WORKFLOW, chain, chain_with
from lab.traffic.chains import SOME, Echoes, counters, missed, passed
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]


@contextmanager
def hung(process: int) -> Iterator[None]:
    """Stop a process without terminating it."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def reasons(lab: LocalLab, daemon: str) -> tuple[str, ...]:
    """Functions that a daemon finds down, and why."""
    with DaemonClient(lab.daemons[daemon].control) as client:
        status = client.status()
    assert isinstance(status, FunctionStatus)
    return status.down if status.ready else ("it does not act on it yet",)


def is_passed_by(lab: LocalLab, function: str, echoes: Echoes) -> None:
    """Check that all echoes bypass a function."""
    first = echoes.answers_after(echoes.sent())
    echoes.all_answered(first)
    came = passed(lab, function)
    echoes.all_answered(first + SOME)
    assert passed(lab, function) - came < SOME / 4, "it gets no packets"


def drops_all(lab: LocalLab, echoes: Echoes) -> None:
    """Check that no echo reaches the server on any path."""
    last, before = echoes.sent(), missed(lab)
    until(lambda: missed(lab) > before + SOME)
    assert max(echoes.answered()) <= last + 1, "nothing bypasses the function"


@pytest.mark.parametrize("fail", ["closed", "open"])
def test_a_function_that_hangs_is_down(deploy: Deploy, fail: str) -> None:
    lab = deploy(chain(fail=fail))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "f2") > 20)
        with hung(lab.daemons["f2"].pid):
            until(lambda: reasons(lab, "n2") == ("f2: control: no answer within 250 ms",))
            if fail == "open":
                until(lambda: reasons(lab, "n1") == ("f2: control: no answer within 250 ms",))
                is_passed_by(lab, "f2", echoes)
            else:
                drops_all(lab, echoes)
        until(lambda: reasons(lab, "n1") == reasons(lab, "n2") == ())
        before = passed(lab, "f2")
        echoes.all_answered(echoes.answers_after(echoes.sent()))
        assert passed(lab, "f2") - before >= 2 * SOME
    assert lab.faults() == ()


@pytest.mark.parametrize("fail", ["closed", "open"])
@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_program_that_hangs_is_down(deploy: Deploy, steering: str, fail: str) -> None:
    lab = deploy(chain_with(SLEEPER, steering=steering, fail=fail))
    judge = "n2" if steering == "nsh" else "n1.classifier"
    pid = lab.programs["x"].pid
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "x") > 20)
        with hung(pid):
            until(lambda: reasons(lab, judge) == (f"x: process: process {pid} is stopped",))
            if fail == "open":
                is_passed_by(lab, "x", echoes)
            else:
                drops_all(lab, echoes)
        until(lambda: reasons(lab, judge) == ())
        echoes.all_answered(echoes.answers_after(echoes.sent()))


def test_a_flow_goes_to_another_instance(deploy: Deploy) -> None:
    lab = deploy(chain(document=with_(WORKFLOW, "functions.f2.instances", 2)))
    with Echoes(lab) as echoes:
        until(lambda: max(passed(lab, each) for each in ("f2-1", "f2-2")) > 20)
        first, second = sorted(("f2-1", "f2-2"), key=lambda each: -passed(lab, each))
        with hung(lab.daemons[first].pid):
            until(lambda: len(reasons(lab, "n2")) == 1)
            is_passed_by(lab, first, echoes)
            assert passed(lab, second) >= 2 * SOME
        until(lambda: reasons(lab, "n2") == ())
        is_passed_by(lab, second, echoes)


@pytest.mark.parametrize("fail", ["closed", "open"])
def test_a_forwarder_needs_nobody_to_tell_it(fail: str) -> None:
    with Chain(1, start=False) as made:
        function = made.functions[0]
        check = {"by": {"control": {"socket": function.config["control"]}}}
        instance = {"name": "f1", "checks": [check]}
        made.sff.config["functions"] = [{"name": "f", "instances": [instance]}]
        paths = [{"spi": spi, "fail": fail, "functions": ["f"]} for spi in (FORWARD, REVERSE)]
        made.sff.config["service_paths"] = paths
        for hop in made.sff.config["hops"]:
            for target in hop.get("to", ()):
                target["instance"] = "f1"
        made.start()
        until(lambda: health(made) == (True, None))
        assert made.answered(10) == 10
        function.stop(signal.SIGKILL)
        until(lambda: not health(made)[0])
        assert str(health(made)[1]).startswith("control: ")
        before = made.sff.counters()
        if fail == "open":
            assert made.answered(10) == 10
            assert made.sff.counters() == before, "none of them is on a path"
        else:
            made.ping("-c", "3", "-i", "0.2")
            after = made.sff.counters()
            assert after["drops"]["no_hop"] == before["drops"]["no_hop"] + 3
        Path(function.config["control"]).unlink(missing_ok=True)
        function.start()
        until(lambda: health(made) == (True, None))
        before = made.sff.counters()
        assert made.answered(10) == 10
        passed_now = hop_packets(made.sff.counters(), FORWARD)[0]
        assert passed_now - hop_packets(before, FORWARD)[0] == 10


def health(made: Chain) -> tuple[bool, str | None]:
    """Whether the function is up and the forwarder acts so, and why not."""
    status = made.sff.get("/v1/status")
    (instance,) = status["functions"][0]["instances"]
    assert instance["up"] == status["functions"][0]["up"]
    up = instance["up"] if status["ready"] else None
    return up, instance["reason"]


def test_a_mistake_in_a_classifiers_configuration_has_its_place(tmp_path: Path) -> None:
    rule = '{"priority": 1000, "table": 1001, "source": "fd00::/8"}'
    paths = f'[{{"name": "c", "functions": ["f"], "rules": [{rule}]}}]'
    file = tmp_path / "classifier.json"
    file.write_text(f'{{"version": 1, "control": "x.sock", "service_paths": {paths}}}')
    command = [str(hawserd()), "function", "classifier", "--config", str(file), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert (
        'service_paths[0].functions[0]: found "f", expected the name of a function' in done.stderr
    )
    assert 'service_paths[0].rules[0].source: found "fd00::/8", expected a prefix' in done.stderr


OWN, X = IPv4Address("10.253.0.9"), "10.253.0.10"
"""Addresses of n2 and of x on the cable between them."""


def checked_by(by: ByHttp | ByForwarding, function: Document) -> NetworkPlan:
    """Give a chain whose forwarder at n2 checks function x so, from its own address."""
    plan = chain_with(function)
    one = Instance(name="x", checks=(Check(by=by, timeout_ms=100),))

    def changed(config: SffConfig) -> SffConfig:
        (port,) = (port for port in config.ports if port.name == "x")
        own = port.model_copy(update={"address": OWN})
        ports = tuple(own if each is port else each for each in config.ports)
        hops = tuple(
            hop.model_copy(update={"to": tuple(map(instance, hop.to))}) for hop in config.hops
        )
        functions = (Function(name="x", instances=(one,)),)
        return config.model_copy(update={"ports": ports, "hops": hops, "functions": functions})

    def instance(to: Target) -> Target:
        return to.model_copy(update={"instance": "x"}) if to.port == "x" else to

    daemons = tuple(
        each.model_copy(update={"config": changed(each.config)})
        if isinstance(each, SffDaemon) and each.name == "n2"
        else each
        for each in plan.daemons
    )
    return plan.model_copy(update={"daemons": daemons})


def test_a_function_that_forwards_no_more_is_down(deploy: Deploy) -> None:
    through = Through(interface="sf3", mac="02:5f:80:03:00:02", address=OWN)
    lab = deploy(checked_by(ByForwarding(forwarding=through), FILTER))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "x") > 20)
        lab.nodes["x"].apply(Settings(values={"net.ipv4.ip_forward": "0"}))
        until(lambda: reasons(lab, "n2") == ("x: forwarding: the packet did not come back",))
        drops_all(lab, echoes)
        lab.nodes["x"].apply(Settings(values={"net.ipv4.ip_forward": "1"}))
        until(lambda: reasons(lab, "n2") == ())
        echoes.all_answered(echoes.answers_after(echoes.sent()))
    drops = counters(lab, "n2").drops
    assert drops["unknown_flow"] == 0, "a returning check packet is not taken for a flow"


def test_a_server_that_hangs_is_down(deploy: Deploy) -> None:
    lab = deploy(checked_by(ByHttp(http=HttpEndpoint(address=f"{X}:8080")), SERVING))
    with hung(lab.programs["x"].pid):
        until(lambda: reasons(lab, "n2") == ("x: http: no answer within 100 ms",))
    until(lambda: reasons(lab, "n2") == ())


_WEB = ["python3", "-m", "http.server", "--bind", X, "8080"]
SERVING: Document = {"kind": "proxy", "node": "n2", "command": _WEB}
