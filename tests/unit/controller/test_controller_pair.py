"""Two gateways of one branch join, are told what they should have, and are handled alone."""

from __future__ import annotations

import json

import pytest
from controller_sample import Api, Machine
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from hawser.controller.context import Context

PAIR = {
    "ports": {
        "gw1b.a": {"address": "192.0.2.130", "next_hop": "192.0.2.129"},
        "gw1b.b": {"address": "192.0.2.134", "next_hop": "192.0.2.133"},
    },
    "pairs": {"b1": {"gateway": "gw1b", "wan": ["a", "b"], "lan": "lan0", "address": "10.1.0.2"}},
}


@pytest.fixture
def pair(api: Api) -> Api:
    api.do("PATCH", "/v1/network", {"patch": PAIR, "reason": "a second gateway"})
    for second in (False, True):
        token = api.do("POST", "/v1/tokens", {"branch": "b1", "second": second})["token"]
        answer = Machine().join(api, token)
        assert answer.json()["branch"] == "b1", "the gateway is of the branch"
        certificate = x509.load_pem_x509_certificate(answer.json()["certificate"].encode())
        names = certificate.extensions.get_extension_for_oid(
            ExtensionOID.SUBJECT_ALTERNATIVE_NAME
        ).value
        assert names.get_values_for_type(x509.DNSName) == ["b1"], "by which peers know it"
    return api


def test_both_have_configurations_of_their_own(pair: Api, context: Context) -> None:
    first, second = pair.get("/v1/gateways")
    assert (first["branch"], second["branch"]) == ("b1", "b1/2")
    assert first["configuration"]["desired"] != second["configuration"]["desired"]
    found = pair.get(f"/v1/gateways/{second['id']}/configuration")
    assert (found["branch"], found["source"]) == ("b1", "10.1.0.2")
    paths = [path for peer in found["peers"] for each in peer["groups"] for path in each["paths"]]
    assert {each["local"] for each in paths} == {"192.0.2.130", "192.0.2.134"}
    peers = json.loads(context.watch.plan().desired["b2"].document)["peers"]
    assert [len(each["groups"]) for each in peers] == [2, 1]


def test_one_is_revoked_and_the_other_stays(pair: Api, context: Context) -> None:
    first, second = pair.get("/v1/gateways")
    pair.do("POST", f"/v1/gateways/{second['id']}/revoke", {"reason": "broken"})
    plan = context.watch.plan()
    assert plan.approved == {first["id"]: "b1"}
    assert len(plan.revoked) == 1
    token = pair.do("POST", "/v1/tokens", {"branch": "b1", "second": True})["token"]
    assert Machine().join(pair, token).json()["state"] == "approved"
    again = pair.do("POST", "/v1/tokens", {"branch": "b1", "second": True})["token"]
    assert Machine().join(pair, again).status_code == 409, "it has one"


def test_a_branch_without_a_second_gateway_has_no_token_for_one(api: Api) -> None:
    answer = api.call("POST", "/v1/tokens", {"branch": "b1", "second": True})
    assert answer.status_code == 422
    assert "a branch with a second gateway" in answer.text


def test_who_is_limited_to_a_branch_handles_both_of_it(pair: Api) -> None:
    for branch, count in (("b1", 2), ("b2", 0)):
        body = {"permissions": ["read", "admit"], "branches": [branch]}
        pair.do("PUT", f"/v1/roles/of-{branch}", body)
        assert len(pair.as_new(f"of-{branch}").get("/v1/gateways")) == count


def test_a_flow_may_take_groups_of_both(pair: Api) -> None:
    found = pair.get("/v1/explain?source=b2&destination=10.1.0.9")
    assert found["destination"] == "b1"
    assert [each["group"] for each in found["groups"]] == [0, 58]
    back = pair.get("/v1/explain?source=b1&destination=b2")
    assert [each["group"] for each in back["groups"]] == [0]
