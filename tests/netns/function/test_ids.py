"""`hawserd function ids` in a chain: what it finds is blocked by the firewall, and nothing else is.

f1: sensor, f2: firewall                                            (lab/function/sensed.py)
"""

from __future__ import annotations

import re
import signal
import subprocess

import pytest

from lab.function import model
from lab.function.sensed import ATTACKER, BENIGN, DISCARD, files, sensed
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root


def test_a_flood_is_blocked_and_explained_and_benign_packets_pass() -> None:
    with sensed(model.UNANSWERED) as chain:
        block = chain.flood()
        assert block["target"]["source"] == ATTACKER
        assert block["first_us"] <= block["decided_us"] <= block["told_us"]
        branch = [(step["feature"], step["is_above"]) for step in block["why"]["branch"]]
        assert branch == [("total_bpackets", False), ("total_fpackets", True)]
        assert block["why"]["features"]["total_fpackets"] > 6.5
        assert block["why"]["score"] == 0.9
        assert not chain.attack_passes()
        assert chain.chain.answered(50) == 50, "of the same host by its other address"
        (rule,) = chain.rules()
        assert (rule["id"], rule["action"]) == (block["id"], "deny")
        assert "test 1" in rule["note"]
        assert [each["target"]["source"] for each in chain.blocks()] == [ATTACKER]
        until(chain.has_counted_all, "every packet is in a flow")
        assert chain.status()["packets"]["lost"] == 0
        assert chain.sensor.counters()["served"]["packets"] > 0


def test_a_malicious_flow_is_blocked_alone_and_several_with_their_source() -> None:
    with sensed(model.UNANSWERED, evidence={"flows": 3, "within_s": 60}) as chain:
        for port in (5001, 5002):
            target = chain.flood(port)["target"]
            assert (target["source_port"], target["destination_port"]) == (port, DISCARD)
            assert chain.attack_passes(), "from another port"
        block = chain.flood(5003)
        assert block["target"] == dict.fromkeys(target, None) | {"source": ATTACKER}
        assert block["why"]["flows"] == 3
        assert not chain.attack_passes()
        assert chain.chain.answered(20) == 20


def test_a_block_lasts_as_long_as_its_flood() -> None:
    with sensed(model.UNANSWERED, lifetime_s=4) as chain:
        block = chain.flood()

        def renewed() -> bool:
            return any(each["renewals"] >= 2 for each in chain.blocks())

        chain.attack(5555, renewed, "the block is renewed")
        (rule,) = chain.rules()
        assert rule["id"] == block["id"]
        assert chain.status()["verdicts"]["renewed"] >= 2
        until(lambda: not chain.rules(), "the rule has ended")
        until(chain.attack_passes, "packets pass again")


def test_a_scan_is_blocked() -> None:
    with sensed(model.REFUSED) as chain:
        chain.scan()
        until(chain.in_force, "the scan is blocked")
        assert chain.chain.answered(20) == 20
        assert [each["target"]["source"] for each in chain.blocks()] == [ATTACKER]


def test_verdicts_of_others_have_the_same_limits() -> None:
    verdicts = {"allow": ["10.0.0.0/26", "2001:db8::/32"], "per_minute": 2}
    with sensed(model.UNANSWERED, **verdicts) as chain:

        def post(source: str, by: str = "cluster") -> int:
            verdict = {"target": {"source": source}, "by": by}
            return chain.sensor.call("POST", "/v1/verdicts", verdict)[0]

        assert [post(each) for each in (BENIGN, "::ffff:10.0.0.1", "2001:db8::7")] == [409] * 3
        nobody = ("::", "224.0.0.1", "nobody", "10.0.0.0/8")
        assert [post(each) for each in nobody] == [422] * 4
        assert post("10.9.0.1", by="") == 422
        assert [post("10.9.0.1"), post("10.9.0.1"), post("10.9.0.2")] == [201, 200, 201]
        assert post("10.9.0.3") == 409, "the limit of a minute"
        until(lambda: len(chain.rules()) == 2, "the firewall has both")
        counted = chain.status()["verdicts"]
        wanted = {"blocked": 2, "known": 1, "allowed": 3, "limited": 1}
        assert {name: counted[name] for name in wanted} == wanted
        assert chain.chain.answered(20) == 20


def test_what_a_sensor_has_answered_outlives_its_kill() -> None:
    with sensed(model.UNANSWERED) as chain:

        def restarted() -> list[int]:
            chain.sensor.stop(signal.SIGKILL)
            chain.sensor.start()
            return sorted(each["id"] for each in chain.blocks())

        made = []
        for host in range(1, 6):
            verdict = {"target": {"source": f"10.9.0.{host}"}, "by": "cluster"}
            status, said = chain.sensor.call("POST", "/v1/verdicts", verdict)
            assert status == 201
            made.append(said["block"])
            assert restarted() == sorted(made)
        assert chain.sensor.call("DELETE", f"/v1/blocks/{made[0]}")[0] == 204
        assert restarted() == sorted(made[1:])


def test_a_block_is_taken_back_and_does_not_return() -> None:
    with sensed(model.UNANSWERED) as chain:
        block = chain.flood()
        path = f"/v1/blocks/{block['id']}"
        assert chain.sensor.call("GET", path)[1]["id"] == block["id"]
        assert chain.sensor.call("DELETE", path)[0] == 204
        until(lambda: not chain.rules(), "the rule is removed")
        until(chain.attack_passes, "packets pass again")
        assert chain.sensor.call("DELETE", path)[0] == 404
        # A flow that began before the block was taken back does not count: it has met the block.
        until(
            lambda: chain.attack_passes() and chain.status()["verdicts"]["pardoned"] > 0,
            "the model finds it malicious again",
        )
        assert not chain.blocks()


def test_a_dry_run_blocks_nothing() -> None:
    with sensed(model.UNANSWERED, dry_run=True) as chain:
        until(lambda: chain.attack_passes() and chain.blocks(), "a block is reported")
        (block,) = chain.blocks()
        assert (block["state"], block["target"]["source"]) == ("dry_run", ATTACKER)
        assert not chain.rules()
        assert chain.attack_passes()


def test_rules_end_by_themselves_without_the_sensor() -> None:
    with sensed(model.UNANSWERED, lifetime_s=2) as chain:
        chain.flood()
        chain.sensor.stop(signal.SIGKILL)
        until(lambda: not chain.rules(), "the rule has ended")
        until(chain.attack_passes, "packets pass again")


def test_a_model_is_replaced_and_a_bad_one_refused() -> None:
    with sensed(model.UNANSWERED) as chain:
        assert chain.sensor.process
        said = lambda: chain.status()["model"]  # noqa: E731
        good = model.text(model.UNANSWERED, "2")
        nan = model.text([("total_bpackets", float("nan"), 1, 2), 0.0, 0.9])
        cycle = model.text([("total_bpackets", 0.5, 0, 1), 0.0])
        for refused, content in enumerate((nan, good[:-9], cycle, "{}", ""), start=1):
            model.write(chain.model, content)
            until(lambda wanted=refused: said()["refused"] == wanted, "it is refused")
            assert said()["name"] == "test 1"
            assert said()["error"]
        assert chain.chain.answered(20) == 20
        model.write(chain.model, good)
        until(lambda: said()["name"] == "test 2", "a changed file is in force")
        loaded = said()["loaded"]
        chain.sensor.process.send_signal(signal.SIGHUP)
        until(lambda: said()["loaded"] > loaded, "it is read again when asked")
        assert said()["error"] is None
        assert chain.flood()["why"]["by"] == "test 2"
        until(chain.has_counted_all, "every packet is in a flow")
        assert chain.status()["packets"]["lost"] == 0


def test_a_killed_sensor_stops_no_packet_and_blocks_stay() -> None:
    with sensed(model.UNANSWERED) as chain:
        block = chain.flood()
        stored = chain.chain.folder / "blocks.json"
        until(lambda: stored.exists() and "in_force" in stored.read_text(), "blocks are stored")
        chain.sensor.stop(signal.SIGKILL)
        last = chain.records / files(chain.records)[-1]
        with last.open("a") as torn:
            torn.write('{"schema":1,"id":"torn')
        assert "xdp" in chain.chain.at("f1", "ip", "link", "show", "f0")
        assert chain.chain.answered(20) == 20, "without the daemon"
        assert not chain.attack_passes()
        namespace = chain.chain.namespace("client")
        command = ["ip", "netns", "exec", namespace, "ping", "-i", "0.01", "-c", "300", "10.0.0.2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as echoes:
            chain.sensor.start()
            said, _ = echoes.communicate(timeout=PATIENCE)
        assert re.search(r" 0% packet loss", said), said
        assert [each["id"] for each in chain.blocks()] == [block["id"]]
        assert not chain.attack_passes()
        until(lambda: chain.status()["packets"]["observed"] > 0, "it sees packets again")


def test_a_mirrored_sensor_sees_what_enters_the_chain_and_follows_the_forwarder() -> None:
    with sensed(model.UNANSWERED, mirrored=True) as chain:
        until(lambda: chain.status()["packets"]["observed"] > 0, "it has found the forwarder")
        assert chain.flood()["target"]["source"] == ATTACKER
        assert not chain.attack_passes()
        chain.chain.sff.stop(signal.SIGKILL)
        chain.chain.sff.start()
        before = chain.status()["flows"]["packets"]
        until(
            lambda: chain.chain.answered(1) and chain.status()["flows"]["packets"] > before,
            "it sees the packets of the new one",
        )
        chain.sensor.stop(signal.SIGKILL)
        assert chain.chain.answered(20) == 20
        assert not chain.attack_passes()


def test_records_are_written_once_each_over_restarts() -> None:
    with sensed(model.UNANSWERED) as chain:
        for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            assert chain.chain.answered(10) == 10
            until(lambda: chain.status()["records"]["written"], "records are written")
            chain.sensor.stop(how)
            left = "xdp" in chain.chain.at("f1", "ip", "link", "show", "f0")
            assert left == (how is signal.SIGKILL), "the port is free unless it was killed"
            ended = [each for each in chain.written() if each["reason"] == "ended"]
            assert ended or how is signal.SIGKILL, "flows that went on have last records"
            chain.sensor.start()
        chain.sensor.stop(signal.SIGTERM)
        records = chain.written()
    runs: dict[str, list[int]] = {}
    for each in records:
        runs.setdefault(each["id"].split("-")[0], []).append(each["seq"])
    assert len(runs) >= 3
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in runs.values())
    assert all(len(each["features"]) == 40 and each["model"] == "test 1" for each in records)


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"model": "/nowhere"}, "ids.model"),
        ({"flows": {"ring_bytes": 100_000}}, "ids.flows.ring_bytes"),
        ({"verdicts": {"firewalls": [], "blocks_file": "b"}}, "ids.verdicts.firewalls"),
        (
            {"verdicts": {"firewalls": [], "blocks_file": "b", "dry_run": True, "allow": ["x"]}},
            r"ids.verdicts.allow\[0\]",
        ),
        (
            {
                "verdicts": {
                    "blocks_file": "b",
                    "firewalls": [{"address": "192.0.2.1:1", "token_file": "t"}],
                }
            },
            r"ids.verdicts.firewalls\[0\].tls",
        ),
    ],
)
def test_bad_settings_are_refused_at_their_place(changed: dict[str, object], place: str) -> None:
    with sensed(model.UNANSWERED) as chain:
        chain.sensor.stop(signal.SIGTERM)
        node = chain.chain.sensor(1, {**chain.sensor.config["ids"], **changed})
        with pytest.raises(RuntimeError, match=place):
            node.start()
        assert node.process
        assert node.process.wait(PATIENCE) == 2
