"""Training on captures: the daemon's scores, what is learnt, and what is kept out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv

from hawser.ids import records, table, train
from hawser.ids.choice import Kind, Weigh
from hawser.ids.errors import IdsError
from hawser.ids.evaluate import evaluate
from lab.daemon import hawserd

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)

Labelled = Callable[[int], train.Labelled]


def trained(found: train.Labelled, **settings: object) -> train.Trained:
    return train.train(found, train.Settings(**settings), [], NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(Kind))
def test_the_daemon_scores_as_scikit_learn(
    kind: Kind, labelled: Labelled, traffic: Callable[[int], Path], tmp_path: Path
) -> None:
    result = trained(labelled(1), kind=kind, depth=4)
    model, scored = tmp_path / "model.json", tmp_path / "scored.csv"
    model.write_bytes(table.write(result.model))
    capture = traffic(2) / "2.pcap"
    options = ("--records", "all", "--model", model, "-o", scored)
    command = [str(each) for each in (hawserd(), "flows", capture, *options)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    found = records.read([scored])
    scores = csv.read_csv(scored)["score"].to_numpy()
    values = train._values(found, result.model.features)
    expected = result.estimator.predict_proba(values)[:, 1]
    assert len(found) > 5000
    assert scores == pytest.approx(expected, abs=1e-12)
    ours = result.model.score(found.features)
    assert ours == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(scores >= 0.5, result.estimator.predict(values) == 1)


def test_attacks_of_another_seed_are_found(labelled: Labelled) -> None:
    result = evaluate(labelled(2), trained(labelled(1)).model)
    assert result.all.flows.recall is not None
    assert result.all.flows.recall > 0.99
    assert result.all.flows.false_alarms is not None
    assert result.all.flows.false_alarms < 0.005
    assert set(result.by_attack) == {"flood", "scan", "slow"}
    assert result.by_attack["scan"].in_time.recall == 0  # two packets: over when they are judged


def test_addresses_that_give_attackers_away_are_shown_and_unused(labelled: Labelled) -> None:
    found = labelled(1)
    honest = trained(found)
    assert max(honest.given_away.values()) < 0.05
    attacker = found.is_malicious[found.flows.of_record]
    source = np.where(attacker, "198.51.100.7", found.records.texts("srcip"))
    at = found.records.rows.column_names.index("srcip")
    rows = found.records.rows.set_column(at, "srcip", [source])
    betrayed = replace(found, records=replace(found.records, rows=rows))
    # The features say it all already, so leave only some that say little.
    few = {"features": ("mean_active", "std_fpktl")}
    telling = trained(betrayed, **few)
    assert telling.given_away["srcip"] > 0.05
    assert telling.given_away["srcip"] > 3 * abs(trained(found, **few).given_away["srcip"])
    # Same model: it never saw the address.
    assert (
        telling.model.trees[0].feature.tolist()
        == trained(found, **few).model.trees[0].feature.tolist()
    )


def test_a_model_says_how_it_was_trained(labelled: Labelled) -> None:
    model = trained(labelled(1), share=0.5, seed=3).model
    training = table.parse(table.write(model), "m").training
    assert training["time"] == "2026-01-05T12:00:00+00:00"
    assert training["settings"]["share"] == 0.5
    assert sum(training["flows"].values()) < 0.6 * len(labelled(1).flows)
    assert model.version == "2026-01-05T12:00:00Z"


def test_an_attack_of_few_flows_counts_like_a_flood(labelled: Labelled) -> None:
    found = labelled(1)
    names, which = np.unique(found.label.astype(str), return_inverse=True)
    attacks = len(names) - 1
    weight = train._by_label(found)
    sums = dict(zip(names.tolist(), np.bincount(which, weight), strict=True))
    assert sums.pop("benign") == pytest.approx(len(found.flows) / 2)
    assert set(np.round(list(sums.values()), 6)) == {round(len(found.flows) / 2 / attacks, 6)}
    model = trained(found, weigh=Weigh.LABEL).model
    assert model.training["settings"]["weigh"] == "label"


def test_training_is_repeatable(labelled: Labelled) -> None:
    assert table.write(trained(labelled(1)).model) == table.write(trained(labelled(1)).model)


def test_the_threshold_keeps_false_alarms_rare() -> None:
    benign = np.array([0.0] * 990 + [0.7] * 9 + [0.9])
    assert train._threshold(benign, 0.001) == pytest.approx(0.7)
    assert train._threshold(benign, 0.001) > 0.7
    assert train._threshold(benign, 0.0) > 0.9
    assert train._threshold(benign, 0.05) == 0.5
    assert train._threshold(np.ones(10), 0.0) == 1.0


def test_records_of_one_kind_cannot_train(labelled: Labelled) -> None:
    found = labelled(1)
    with pytest.raises(IdsError, match="found 0 malicious flows"):
        trained(found.only(~found.is_malicious))
    with pytest.raises(IdsError, match="found 'colour'"):
        trained(found, features=("colour",))
