"""TOSCA descriptors: what becomes of them, what is not carried over, what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_files import loaded

from hawser.overlay.lab import network
from hawser.spec import SpecErrors
from hawser.spec.foreign import Imported
from hawser.spec.tosca import imported

SECRET = "opnfv-Sw0rdf1sh"  # noqa: S105 (of nobody)


def vnf(name: str, zone: str = "nova:node-8", cpus: object = 2) -> dict[str, Any]:
    return {
        "tosca_definitions_version": "tosca_simple_profile_for_nfv_1_0_0",
        "metadata": {"template_name": name},
        "topology_template": {
            "inputs": {"cores": {"type": "integer", "default": 3}},
            "node_templates": {
                "VDU1": {
                    "type": "tosca.nodes.nfv.VDU.Tacker",
                    "capabilities": {
                        "nfv_compute": {"properties": {"num_cpus": cpus, "mem_size": "512 MB"}}
                    },
                    "properties": {
                        "image": "sfc_client.img",
                        "availability_zone": zone,
                        "user_data_format": "RAW",
                        "user_data": f"#!/bin/sh\necho 'root:{SECRET}' | chpasswd\n",
                    },
                },
                "CP1": {
                    "type": "tosca.nodes.nfv.CP.Tacker",
                    "requirements": [{"virtualBinding": {"node": "VDU1"}}],
                },
            },
        },
    }


def graph(criteria: list[Any], *forwarders: str, symmetrical: bool = False) -> dict[str, Any]:
    return {
        "tosca_definitions_version": "tosca_simple_profile_for_nfv_1_0_0",
        "topology_template": {
            "node_templates": {
                "Forwarding_path1": {
                    "type": "tosca.nodes.nfv.FP.TackerV2",
                    "properties": {
                        "id": 51,
                        "policy": {"type": "ACL", "criteria": criteria},
                        "path": [{"forwarder": f, "capability": "CP1"} for f in forwarders],
                    },
                }
            },
            "groups": {
                "VNFFG1": {
                    "type": "tosca.groups.nfv.VNFFG",
                    "properties": {"vendor": "tacker", "symmetrical": symmetrical},
                    "members": ["Forwarding_path1"],
                }
            },
        },
    }


OLDER = [
    {"network_src_port_id": "640dfd77"},
    {"destination_port_range": "80-1024"},
    {"ip_proto": 6},
]
NEWER = [{"name": "b", "classifier": {"ip_proto": 17, "ip_dst_prefix": "192.0.2.2/24"}}]


def read(*documents: object) -> Imported:
    texts = {f"file{n}.yaml": json.dumps(each) for n, each in enumerate(documents, 1)}
    return imported(texts)


def refused(*documents: object) -> str:
    with pytest.raises(SpecErrors) as failure:
        read(*documents)
    return str(failure.value)


def test_functions_and_a_graph_become_a_chain() -> None:
    found = read(
        vnf("VNFD1"),
        vnf("VNFD2", "nova:node-9", {"get_input": "cores"}),
        graph(OLDER, "VNFD1", "VNFD1", "VNFD2"),
    )
    scenario = loaded(found.text).variants[0].scenario
    (chain,) = scenario.chains.values()
    assert chain.functions == ("vnfd1", "vnfd2")
    assert (chain.match.protocol, chain.symmetric) == ("tcp", False)
    first, second = scenario.functions.values()
    assert (first.node, first.cpu, second.node, second.cpu) == ("n1", 2, "n2", 3)
    assert network(scenario).chains
    told = "\n".join(found.left)
    assert "destination_port_range" in told
    assert "user_data" in told
    assert SECRET not in found.text + told


def test_the_newer_form_and_functions_without_a_descriptor() -> None:
    found = read(graph(NEWER, "a", "b", symmetrical=True))
    scenario = loaded(found.text).variants[0].scenario
    (chain,) = scenario.chains.values()
    assert (chain.match.protocol, chain.symmetric) == ("udp", True)
    assert list(scenario.measurements) == ["udp"]
    assert any('"a" has no descriptor' in each for each in found.left)


def test_what_is_wrong_is_told_with_its_place() -> None:
    assert "file1.yaml:1:1: expected a mapping" in refused([1, 2])
    assert "file1.yaml:1:1: topology_template" in refused({"tosca_definitions_version": "x"})
    assert "found no forwarding path" in refused(vnf("VNFD1"))
    assert "which another file describes" in refused(vnf("a"), vnf("a"), graph(OLDER, "a"))
    again = refused(graph(OLDER, "a", "b", "a"))
    assert "Forwarding_path1.properties.path.0: found 'a' again" in again.replace(
        "node_templates.", ""
    )
    broken = graph(OLDER, "a")
    broken["topology_template"]["node_templates"]["Forwarding_path1"]["properties"]["path"] = 7
    assert "Forwarding_path1.properties.path: " in refused(broken)
    del broken["topology_template"]["node_templates"]["Forwarding_path1"]["properties"]
    assert "expected properties with a path" in refused(broken)


def test_tags_are_refused() -> None:
    with pytest.raises(SpecErrors, match="tag"):
        imported({"x.yaml": "tosca_definitions_version: !!python/object/apply:os.system [ls]"})


KEYS = (
    *("type", "properties", "path", "policy", "criteria", "forwarder", "classifier"),
    *("get_input", "capabilities", "nfv_compute"),
)
PARTS = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(KEYS), below, max_size=4)
    ),
    max_leaves=12,
)


@given(PARTS)
def test_nothing_but_a_workflow_or_mistakes_comes_out(part: object) -> None:
    document = graph(OLDER, "a")
    document["topology_template"]["node_templates"]["Forwarding_path1"]["properties"] = part
    other = vnf("a")
    other["topology_template"]["node_templates"]["VDU1"]["capabilities"] = part
    for documents in ((document,), (other, graph(OLDER, "a"))):
        with contextlib.suppress(SpecErrors):
            loaded(read(*documents).text)


def test_an_image_that_says_firewall_makes_one() -> None:
    described = vnf("VNF1")
    template = described["topology_template"]["node_templates"]["VDU1"]
    template["properties"]["image"] = "ubuntu-firewall.qcow2"
    files = {"v.yaml": described, "g.yaml": graph([], "VNF1", "fw-2", "VNF3")}
    found = imported({name: json.dumps(file) for name, file in files.items()})
    functions = loaded(found.text).variants[0].scenario.functions
    assert [each.kind for each in functions.values()] == ["firewall", "firewall", "forwarder"]
