"""What a workflow file can say, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_files import SMALL, WORKFLOWS, loaded, mistakes, read, small

from hawser.spec import SpecErrors, Workflow, load
from hawser.spec.measurement import Iperf3
from hawser.spec.overlay import Transport
from hawser.spec.units import Duration, Rate, Size


def rates(workflow: Workflow) -> list[Rate | None]:
    return [v.scenario.topology.links["cable"].rate for v in workflow.variants]


def test_quickstart() -> None:
    path = next(path for path in WORKFLOWS if path.name == "quickstart.yaml")
    workflow = load(str(path), read)
    transports = [v.scenario.overlay.transport for v in workflow.variants if v.scenario.overlay]
    assert transports == [Transport.MPTCP, Transport.IPIP, Transport.IPIP]
    assert workflow.variants[0].labels == {"transport": "ipomp"}
    assert workflow.repeat == 3
    tcp = workflow.variants[0].scenario.measurements["tcp"]
    assert isinstance(tcp, Iperf3)
    assert (tcp.source, tcp.duration) == ("h1", Duration(4))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_shipped_workflows_load(path: Path) -> None:
    assert load(str(path), read).name == path.stem


@pytest.mark.parametrize("name", ["aws-sfc-ohio", "aws-sfc-sydney"])
def test_chains_over_aws_take_trials_of_a_minute(name: str) -> None:
    """As their heads advertise."""
    path = next(path for path in WORKFLOWS if path.stem == name)
    long = load(str(path), read, ("measurements.search.trial=60 s",))
    assert long.reference == load(str(path), read).reference
    published = [r.variant for r in long.reference if r.metric == "conditional_throughput"]
    assert all(v.get("functions") == "ipsec" or "uncapped" in v["instance"] for v in published)


@pytest.mark.parametrize("name", ["aws-sfc-ohio", "aws-sfc-sydney"])
def test_a_small_instance_is_half_a_large_one(name: str) -> None:
    path = next(path for path in WORKFLOWS if path.stem == name)
    sizes = {
        v.labels["instance"]: (
            v.scenario.functions["enc"].cpu,
            v.scenario.topology.links["east"].rate,
        )
        for v in load(str(path), read).variants
        if v.labels["functions"] == "ipsec"
    }
    cores, rate = sizes["small"]
    assert cores is not None
    assert rate is not None
    assert sizes["large"] == sizes["large-uncapped"] == (2 * cores, 2 * rate)


def test_without_variants_there_is_one() -> None:
    workflow = small()
    assert [variant.labels for variant in workflow.variants] == [{}]
    assert workflow.repeat == 5


def test_nodes_as_list_or_mapping() -> None:
    written = SMALL.replace("[a, b]", "{a: , b: {sysctl: {net.core.somaxconn: 4096}}}")
    nodes = loaded(written).variants[0].scenario.topology.nodes
    assert nodes["a"] == small().variants[0].scenario.topology.nodes["a"]
    assert nodes["b"].sysctl == {"net.core.somaxconn": "4096"}


@pytest.mark.parametrize("trial", ["5 s", "60 s"])
def test_conditional_throughput_is_asserted_whatever_trials_last(trial: str) -> None:
    search = f"{{probe: throughput, from: a, to: b, sizes: {{fixed: 100 B}}, trial: {trial}}}"
    more = "assert: [{metric: conditional_throughput, at_least: 1}]\n"
    assert mistakes(SMALL.replace("{rtt: {", f"{{s: {search}, rtt: {{") + more) == []


def test_throughput_is_not_what_short_trials_give() -> None:
    search = "{probe: throughput, from: a, to: b, sizes: {fixed: 100 B}, trial: 5 s}"
    more = "assert: [{metric: throughput, at_least: 1}]\n"
    (found,) = mistakes(SMALL.replace("{rtt: {", f"{{s: {search}, rtt: {{") + more)
    assert "assert.0.metric: found 'throughput', which no measurement gives" in found


class TestVariables:
    def test_stand_for_any_value(self) -> None:
        workflow = loaded(
            SMALL.replace("1 Mbit/s", '"${rate}"').replace("[a.eth, b.eth]", '"${ends}"')
            + 'vars: {rate: "${fast}", fast: 2 Gbit/s, ends: [a.x, "${end}"], end: b.x}\n'
        )
        link = workflow.variants[0].scenario.topology.links["cable"]
        assert (link.rate, link.ends) == (Rate(2e9), ("a.x", "b.x"))

    def test_keep_their_type(self) -> None:
        assert small('vars: {n: 7}\nrepeat: "${n}"\n').repeat == 7
        assert mistakes(SMALL + 'vars: {n: "7"}\nrepeat: "${n}"\n') == [
            "x.yaml:6:11: repeat: found '7', expected a whole number"
        ]

    def test_may_vary(self) -> None:
        workflow = loaded(
            SMALL.replace("1 Mbit/s", '"${rate}"')
            + "vars: {rate: 1 Mbit/s}\n"
            + "variants: {product: {rate: {slow: {}, fast: {vars.rate: 9 Mbit/s}}}}\n"
        )
        assert rates(workflow) == [1e6, 9e6]

    def test_unused_is_no_mistake(self) -> None:
        assert not mistakes(SMALL + "vars: {unused: 1}\n")

    def test_a_title_may_hold_a_dollar(self) -> None:
        (found,) = mistakes(SMALL.replace("Small", "'costs ${5}'"))
        assert found.startswith("x.yaml:3:8: title: found 'costs ${5}', expected a variable alone")
        assert loaded(SMALL.replace("Small", "costs 5 $")).title == "costs 5 $"

    def test_growing_without_end_is_refused(self) -> None:
        lines = [f"v{i}: [{nine(i + 1)}]" for i in range(12)]
        text = SMALL + "vars:\n  " + "\n  ".join([*lines, "v12: 1"]) + '\nrepeat: "${v0}"\n'
        assert any("more than 50000 values" in text for text in mistakes(text))

    def test_a_chain_ends(self) -> None:
        lines = [f'v{i}: "${{v{i + 1}}}"' for i in range(400)]
        text = SMALL + "vars:\n  " + "\n  ".join([*lines, "v400: 1"]) + '\nrepeat: "${v0}"\n'
        assert any("without end" in text for text in mistakes(text))


def nine(number: int) -> str:
    return ", ".join([f'"${{v{number}}}"'] * 9)


class TestVariants:
    AXES = """
        variants:
          product:
            rate: {slow: {topology.links.cable.rate: 2 Mbit/s}, fast: {}}
          zip:
            queue:
              small: {topology.links.cable.queue: 10 kB}
              large: {topology.links.cable.queue: 90 kB}
            count:
              1: {measurements.rtt.count: 1}
              2: {measurements.rtt.count: 2}
        """

    def test_product_and_zip(self) -> None:
        workflow = small(self.AXES)
        assert [v.labels for v in workflow.variants] == [
            {"rate": "slow", "queue": "small", "count": "1"},
            {"rate": "slow", "queue": "large", "count": "2"},
            {"rate": "fast", "queue": "small", "count": "1"},
            {"rate": "fast", "queue": "large", "count": "2"},
        ]
        assert rates(workflow) == [2e6, 2e6, 1e6, 1e6]
        links = [v.scenario.topology.links["cable"] for v in workflow.variants]
        assert [link.queue for link in links] == [Size(1e4), Size(9e4)] * 2

    def test_exclude(self) -> None:
        workflow = small(self.AXES + "  exclude: [{rate: slow, count: 1}, {queue: large}]\n")
        assert [v.labels["rate"] + v.labels["count"] for v in workflow.variants] == ["fast1"]

    def test_excluding_everything_is_a_mistake(self) -> None:
        found = mistakes(SMALL + "variants: {product: {a: {x: {}}}, exclude: [{a: x}]}\n")
        assert found == [
            "x.yaml:6:11: variants.exclude: found every variant excluded, expected one to stay"
        ]

    def test_null_deletes(self) -> None:
        workflow = small(
            "variants: {product: {rate: {none: {topology.links.cable.rate: null}, some: {}}}}\n"
        )
        assert rates(workflow) == [None, 1e6]

    def test_a_mistake_points_at_the_override(self) -> None:
        found = mistakes(
            SMALL
            + "variants:\n  product:\n    rate:\n"
            + "      wrong: {topology.links.cable.rate: 1 Mbit}\n"
            + "      right: {topology.links.cable.rate: 1 Mbit/s}\n"
        )
        assert len(found) == 1
        assert found[0].startswith("x.yaml:9:42: topology.links.cable.rate: found '1 Mbit'")

    def test_labels_are_as_written(self) -> None:
        workflow = small(
            """
            variants: {product: {ratio: {10:10: {}, 1e3: {}, on: {}}}}
            reference:
              - {variant: {ratio: 10:10}, metric: rtt, value: 1, unit: ms, source: here}
              - {variant: {ratio: 1e3}, metric: rtt, value: 1, unit: ms, source: here}
            """
        )
        assert [v.labels["ratio"] for v in workflow.variants] == ["10:10", "1e3", "on"]
        assert workflow.reference[1].variant == {"ratio": "1e3"}


class TestExtends:
    BASE = SMALL + "repeat: 9\nvars: {n: 3}\n"

    def test_lays_over(self) -> None:
        workflow = loaded(
            """
extends: base.yaml
hawser: 1
name: other
vars: {m: 4}
topology:
  nodes: [c]
  links:
    cable: {rate: null}
    second: {ends: [b.x, c.x]}
measurements: {rtt: {to: c, count: "${m}"}}
""",
            base=self.BASE,
        )
        scenario = workflow.variants[0].scenario
        assert (workflow.name, workflow.title, workflow.repeat) == ("other", "Small", 9)
        assert list(scenario.topology.nodes) == ["a", "b", "c"]
        assert list(scenario.topology.links) == ["cable", "second"]
        assert scenario.topology.links["cable"].rate is None
        assert scenario.measurements["rtt"].target == "c"

    def test_a_mistake_names_its_file(self) -> None:
        found = mistakes("extends: base.yaml\nrepeat: 0\n", base=SMALL + "seed: -1\n")
        assert found == [
            "base.yaml:6:7: seed: found -1, expected at least 0",
            "x.yaml:2:9: repeat: found 0, expected at least 1",
        ]

    def test_relative_to_the_file(self) -> None:
        asked = []

        def content(name: str) -> str:
            asked.append(name)
            return "extends: ../base/y.yaml\n" if name == "some/dir/x.yaml" else SMALL

        load("some/dir/x.yaml", content)
        assert asked == ["some/dir/x.yaml", "some/base/y.yaml"]

    def test_a_chain_ends(self) -> None:
        files = {f"f{i}": f"extends: f{i + 1}.yaml\n" for i in range(20)}
        found = mistakes("extends: f0.yaml\n", **files)
        assert len(found) == 1
        assert "without end" in found[0]


def test_many_variants_of_one_mistake_end_soon() -> None:
    axes = "".join(
        f"    a{i}: {{{', '.join(f'v{j}: {{topology.links.l{i}{j}: 1}}' for j in range(10))}}}\n"
        for i in range(3)
    )
    found = mistakes(SMALL + "variants:\n  product:\n" + axes)
    assert 30 <= len(found) <= 400


class TestOverrides:
    def test_win_over_variants(self) -> None:
        more = "variants: {product: {rate: {slow: {topology.links.cable.rate: 2 Mbit/s}}}}\n"
        assert rates(small(more, ("topology.links.cable.rate=3 Mbit/s",))) == [3e6]

    def test_values_are_yaml(self) -> None:
        workflow = small("", ("repeat=2", "measurements.rtt={probe: ping, from: b, to: a}"))
        assert workflow.repeat == 2
        assert workflow.variants[0].scenario.measurements["rtt"].source == "b"

    def test_keys_with_dots(self) -> None:
        path = next(path for path in WORKFLOWS if path.name == "quickstart.yaml")
        workflow = load(str(path), read, ["topology.internet.ports.gw1.a.rate=7 Mbit/s"])
        internet = workflow.variants[0].scenario.topology.internet
        assert internet is not None
        assert internet.ports["gw1.a"].rate == 7e6

    def test_positions(self) -> None:
        more = "assert: [{metric: rtt, at_most: 5}]\n"
        assert small(more, ("assert.0.at_most=6",)).assertions[0].at_most == 6

    def test_delete(self) -> None:
        more = "variants: {product: {a: {x: {}, y: {}}}}\n"
        assert len(small(more, ("variants=null",)).variants) == 1

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("repeat", "--set repeat: found 'repeat', expected a.b.c=value"),
            ("=3", "--set =3: found '=3', expected a.b.c=value"),
            ("repeat=0", "--set repeat=0: repeat: found 0, expected at least 1"),
            ("repeat=", "--set repeat=: repeat: found '', expected a whole number"),
            ("repaet=3", "--set repaet=3: repaet: unknown field; did you mean 'repeat'?"),
            ("name.x=3", "--set name.x=3: name.x: found 'small', expected a mapping to set 'x' in"),
            ("topology.links.cable.ends.2=a.x", "expected 0 to 1"),
            ("repeat=\udc80", "--set repeat=\\udc80: repeat: found '\\\\udc80'"),
            ("extends=y.yaml", "extends: cannot be set"),
            (".".join(["a"] * 2000) + "=1", "found 2000 steps, expected at most 32"),
            ("repeat=[1", "--set repeat=[1: repeat: cannot be read as YAML: "),
        ],
    )
    def test_mistakes(self, override: str, message: str) -> None:
        found = mistakes(SMALL, (override,))
        assert len(found) == 1
        assert message in found[0]


def test_errors_are_in_the_order_of_the_file_and_limited_in_print() -> None:
    text = SMALL + "vars: {}\n" + "".join(f"field{i}: 1\n" for i in range(70))
    with pytest.raises(SpecErrors) as caught:
        loaded(text)
    assert [error.line for error in caught.value.errors] == list(range(7, 77))
    assert str(caught.value).splitlines()[-1] == "and 20 more errors"
