"""SFCPerf's workflow files: what becomes of them, what is not carried over, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_files import loaded

from hawser.overlay.lab import network
from hawser.spec import SpecErrors, foreign
from hawser.spec.foreign import Imported
from hawser.spec.measurement import Http, Iperf3, Ping
from hawser.spec.sfcperf import imported

SECRET = "opnfv-Sw0rdf1sh"  # noqa: S105 (of nobody)

OLDER: dict[str, Any] = {
    "connection_params": ["gta", SECRET],
    "connection": "SSH",
    "tests": [
        {
            "src": "198.51.100.8",
            "dst": "198.51.100.9",
            "param": [5],
            "rounds": 2,
            "test": "Ping",
            "output_file": "ping.txt",
        },
        {
            "src": "198.51.100.8",
            "dst": "198.51.100.9",
            "param": [5001, "100M", 10, 1400],
            "test": "Iperf",
        },
    ],
}

CHAIN: dict[str, Any] = {
    "connection": {"type": "SSH", "params": ["gta", SECRET]},
    "Visualize": {"type": "Kibana", "params": ["198.51.100.1", 9200]},
    "tests": [
        {"src": "a", "dst": "b", "test": "Httperf"},
        {"src": "a", "dst": "b", "test": "Iperf"},
        {"src": "a", "dst": "b", "test": "Ping"},
    ],
    "SFC": {
        "Classifier": {"name": "c", "matchRule": "source_port=0,dest_port=20000,protocol=6"},
        "Chain": {
            "name": "chain",
            "chain": [
                {"name": "VNF1_gta", "node": "nova:node-8", "network": "n", "descriptor": "./v"},
                {"name": "h1", "node": "nova:node-9", "network": "n", "descriptor": "./v"},
                {"name": "3", "node": "nova:node-8", "network": "n", "descriptor": "./v"},
            ],
        },
        "Management": {
            "ip": "198.51.100.21",
            "type": "Tacker",
            "connection": "Mock_SSH",
            "connection_params": ["gta", SECRET],
        },
    },
}

NEWER: dict[str, Any] = {
    **CHAIN,
    "SFC": {
        **CHAIN["SFC"],
        "Management": {
            "ip": "198.51.100.21",
            "type": "Tacker",
            "connection": {"type": "SSH", "params": ["gta", SECRET]},
        },
    },
}
"""As SFCPerf's last version wrote it; `CHAIN` has what manages functions as the one before did."""


def read(file: object) -> Imported:
    return imported(json.dumps(file), "file.json")


def test_measurements_become_ours() -> None:
    workflow = loaded(read(OLDER).text)
    ping, udp = workflow.variants[0].scenario.measurements.values()
    assert isinstance(ping, Ping)
    assert isinstance(udp, Iperf3)
    assert (workflow.repeat, ping.count, ping.source, ping.target) == (2, 5, "h1", "h2")
    assert (str(udp.rate), udp.duration, udp.length, udp.protocol) == (
        "100 Mbit/s",
        10,
        1400,
        "udp",
    )


def test_a_chain_becomes_ours() -> None:
    scenario = loaded(read(CHAIN).text).variants[0].scenario
    (chain,) = scenario.chains.values()
    assert chain.functions == ("vnf1-gta", "function-2", "function-3")
    assert [scenario.functions[name].node for name in chain.functions] == ["n1", "n2", "n1"]
    assert chain.match.protocol == "tcp"
    http, udp, ping = scenario.measurements.values()
    assert isinstance(http, Http)
    assert isinstance(udp, Iperf3)
    assert isinstance(ping, Ping)
    assert (str(udp.rate), ping.count) == ("10 Mbit/s", 10)
    (planned,) = network(scenario).chains
    assert planned.service_paths[0].way == (
        "h1",
        "n1",
        "vnf1-gta",
        "n2",
        "function-2",
        "n1",
        "function-3",
        "n2",
        "h2",
    )


@pytest.mark.parametrize("file", [OLDER, CHAIN, NEWER])
def test_no_secret_is_anywhere(file: object) -> None:
    found = read(file)
    assert SECRET not in found.text
    assert not any(SECRET in each or "gta," in each for each in found.left)


def test_what_is_left_is_told() -> None:
    left = "\n".join(read(CHAIN).left)
    for place in (
        "connection:",
        "Visualize:",
        "SFC.Management:",
        "SFC.Chain.chain.1:",
        "matchRule 'dest_port'",
        "tests.1.param.1: no rate",
        '"a" is node h1',
    ):
        assert place in left
    assert "source_port" not in left
    assert "tests.0.output_file" in "\n".join(read(OLDER).left)
    assert "tests.1.rounds" in "\n".join(read(OLDER).left)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"connection": {"type": "os", "params": [SECRET]}}, "connection: found the name of a"),
        ({"Visualize": {"type": "subprocess"}}, "Visualize: found the name of a Python module"),
        ({"tests": [{"src": "a", "dst": "b", "test": "antigravity"}]}, "tests.0.test: found"),
        ({"tests": []}, "tests: found []"),
        ({"tests": None}, "tests: "),
        ({"SFC": {"Chain": {"chain": []}}}, "SFC.Chain.chain: found []"),
        (
            {"SFC": {**CHAIN["SFC"], "Management": {"type": "pty"}}},
            "SFC.Management: found the name of a Python module, which is not run; expected Tacker",
        ),
        (
            {"SFC": {**CHAIN["SFC"], "Management": {"type": "Tacker", "connection": "shutil"}}},
            "SFC.Management.connection: found the name of a Python module",
        ),
    ],
)
def test_these_are_refused(change: dict[str, Any], wanted: str) -> None:
    with pytest.raises(SpecErrors) as caught:
        read({**CHAIN, **change})
    assert wanted in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["FALSE", "True", "null", "yes", "-No-", "n", "on"])
def test_a_name_that_yaml_reads_as_a_value_gets_another(name: str) -> None:
    chain = {"Chain": {"chain": [{"name": name, "node": "x"}]}}
    scenario = loaded(read({**CHAIN, "SFC": {**CHAIN["SFC"], **chain}}).text).variants[0].scenario
    assert list(scenario.functions) == ["function-1"]


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"tests": 1}', "\x00"])
def test_what_is_no_workflow_is_refused(text: str) -> None:
    with pytest.raises(SpecErrors):
        imported(text, "file.json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda part: (
        st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=6), part, max_size=3)
    ),
    max_leaves=8,
)


@given(
    param=st.lists(values, max_size=5),
    name=st.text(min_size=1, max_size=40),
    rule=st.text(max_size=40),
    extra=values,
)
def test_whatever_is_in_a_file_comes_out_as_a_workflow_or_is_refused(
    param: list[Any], name: str, rule: str, extra: object
) -> None:
    tests = [{**test, "param": param, "more": extra} for test in CHAIN["tests"]]
    vnfs = [{"name": name, "node": name, "more": extra}]
    sfc = {**CHAIN["SFC"], "Chain": {"chain": vnfs}, "Classifier": {"matchRule": rule}}
    try:
        found = read({**CHAIN, "tests": tests, "SFC": sfc})
    except SpecErrors:
        return
    assert loaded(found.text).variants[0].scenario.chains


def test_a_firewall_and_httperf_with_port_and_connections_are_kept() -> None:
    chain = CHAIN["SFC"]["Chain"]["chain"]
    named = [
        {**chain[0], "name": "FW-1"},
        {**chain[1], "descriptor": "./vnfs/firewall.yaml"},
        chain[2],
    ]
    file = {
        **CHAIN,
        "tests": [{"src": "a", "dst": "b", "test": "Httperf", "param": [8080, 20]}],
        "SFC": {**CHAIN["SFC"], "Chain": {"name": "c", "chain": named}},
    }
    found = read(file)
    scenario = loaded(found.text).variants[0].scenario
    kinds = [scenario.functions[name].kind for name in scenario.chains["chain1"].functions]
    assert kinds == ["firewall", "firewall", "forwarder"]
    (http,) = scenario.measurements.values()
    assert isinstance(http, Http)
    assert (http.port, http.connections, http.keepalive) == (8080, 20, False)
    assert any("no rules" in each for each in found.left)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("vFW", "forwarder"),
        ("fw", "firewall"),
        ("vnf_fw2", "firewall"),
        ("Fire-Wall", "firewall"),
        ("firewall.img", "firewall"),
        ("fwd", "forwarder"),
        (None, "forwarder"),
        (7, "forwarder"),
    ],
)
def test_a_function_says_what_it_is(text: object, kind: str) -> None:
    assert foreign.kind("VNF1", text) == kind
