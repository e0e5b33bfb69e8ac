"""`hawser ids`: models of intrusion detection, trained, judged and explained."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawser.cli import files, ids_streams, options, output
from hawser.ids.choice import Kind, Weigh

if TYPE_CHECKING:
    from hawser.ids.evaluate import Evaluation, Group
    from hawser.ids.explain import Explanation
    from hawser.ids.replay import Replayed
    from hawser.ids.table import Model
    from hawser.ids.train import Labelled, Trained

app = typer.Typer(
    name="ids",
    help="Train, judge and explain models that find attacks in flow records.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_RecordsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="RECORDS...",
        help="Flow records: CSV of `hawserd flows`, Parquet, a sensor's record log, or a folder.",
    ),
]
_LabelsOption = Annotated[
    list[Path],
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Labels: Hawser's own, UNSW-NB15 or CIC-IDS2017. May be repeated.",
    ),
]
_ModelOption = Annotated[Path, typer.Option("--model", metavar="MODEL", help="Model file.")]
_ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold", min=0, max=1, help="Score from which on a flow is malicious."),
]


class Format(StrEnum):
    """Form of a model."""

    TABLE = "table"
    RULES = "rules"
    DOT = "dot"


_WeighOption = Annotated[
    Weigh, typer.Option("--weigh", help="What counts alike: each flow, or each attack (label).")
]
_KindOption = Annotated[
    Kind, typer.Option("--kind", help="Decision tree, random forest or gradient boosting.")
]
_DepthOption = Annotated[
    int | None,
    typer.Option("--depth", min=1, max=64, help="Comparisons on the way to a leaf, at most."),
]
_FeaturesOption = Annotated[
    str | None,
    typer.Option("--features", metavar="A,B,...", help="Only these. Default: all but dscp."),
]
_ShareOption = Annotated[
    float,
    typer.Option("--share", min=0.001, max=1, help="Share of the flows to draw and train with."),
]
_FalseAlarmsOption = Annotated[
    float,
    typer.Option("--false-alarms", min=0, max=1, help="Share of benign flows that may be named."),
]
_SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=(1 << 32) - 1, help="Of all that is drawn.")
]


@app.command("train")
def train(
    records: _RecordsArgument,
    labels: _LabelsOption,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="Model file.")],
    kind: _KindOption = Kind.TREE,
    depth: _DepthOption = None,
    features: _FeaturesOption = None,
    share: _ShareOption = 1.0,
    false_alarms: _FalseAlarmsOption = 0.001,
    seed: _SeedOption = 1,
    weigh: _WeighOption = Weigh.FLOW,
    as_json: options.JsonOption = False,
) -> None:
    """Train a model from labelled records.

    Addresses and ports are no features: a model that sees them learns who attacked. What they
    would have been worth is shown beside what the model decides by.
    """
    _need()
    from hawser.ids import train as training
    from hawser.ids.features import DEFAULT
    from hawser.ids.table import write

    settings = training.Settings(
        kind=kind,
        features=DEFAULT if features is None else tuple(features.split(",")),
        depth=depth,
        share=share,
        false_alarms=false_alarms,
        seed=seed,
        weigh=weigh,
    )
    found, formats = _labelled(records, labels)
    sources = [
        *map(_source, _all_files(records)),
        *(_source(p) | {"format": f} for p, f in formats),
    ]
    trained = training.train(found, settings, sources, datetime.now(UTC))
    with files.writing(out) as opened:
        opened.write(write(trained.model).decode())
    if as_json:
        output.document(_summary(trained.model))
        return
    _show_training(trained)
    output.say(f"Model: {out}")


@app.command("evaluate")
def evaluate(
    records: _RecordsArgument,
    labels: _LabelsOption,
    model: _ModelOption,
    threshold: _ThresholdOption = None,
    unseen: Annotated[
        bool,
        typer.Option("--unseen", help="Leave out the flows that the model drew for its training."),
    ] = False,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Also say what sensors would have blocked, by policy."),
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Judge a model by labelled records: by flow, by volume, in time, and by attack.

    Records should include those of flows that go on (`hawserd flows --records all`): a verdict on
    the last record of a flow comes too late to block anything.
    """
    _need()
    from hawser.ids.evaluate import evaluate as judge
    from hawser.ids.replay import replay as replay_all
    from hawser.ids.table import read

    chosen = read(model)
    found, _ = _labelled(records, labels)
    if unseen:
        found = _unseen(found, chosen)
    if threshold is not None:
        chosen = chosen.with_(threshold=threshold)
    result = judge(found, chosen)
    replayed = replay_all(found, chosen) if replay else []
    if as_json:
        document = _evaluation(result)
        output.document(document | {"replay": list(map(asdict, replayed))} if replay else document)
        return
    _show_evaluation(result)
    if replay:
        _show_replay(replayed)


@app.command("explain")
def explain(
    records: _RecordsArgument,
    model: _ModelOption,
    number: Annotated[
        int | None,
        typer.Option(
            "--record", metavar="N", min=1, help="Which, from 1. Default: the highest score."
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show why a record has its score: comparisons, and what each feature contributes."""
    from hawser.ids.errors import IdsError
    from hawser.ids.explain import explain as explained
    from hawser.ids.features import TUPLE
    from hawser.ids.records import read
    from hawser.ids.table import read as read_model

    chosen, found = read_model(model), read(records)
    if not len(found) or (number or 1) > len(found):
        raise IdsError(records[0], f"found {len(found)} records, expected {number or 1} or more")
    at = int(chosen.score(found.features).argmax()) if number is None else number - 1
    result = explained(chosen, found.features[at])
    names = (*TUPLE, "first_us", "last_us", "reason")
    about = {name: found.rows[name][at].as_py() for name in names}
    if as_json:
        output.document({"record": at + 1, **about, **asdict(result)})
        return
    _show_explanation(at + 1, about, result, chosen)


@app.command("export")
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    form: Annotated[
        Format, typer.Option("--format", help="table, rules (text) or dot (Graphviz).")
    ] = Format.TABLE,
    threshold: _ThresholdOption = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the model.")] = None,
    out: options.OutputOption = None,
) -> None:
    """Write a model again: as a table with another threshold or name, or for people."""
    from hawser.ids import render, table

    chosen = table.read(model)
    changes = {"threshold": threshold, "name": name}
    chosen = chosen.with_(**{key: value for key, value in changes.items() if value is not None})
    write = {Format.RULES: render.rules, Format.DOT: render.dot}.get(form, _table)
    text = write(chosen)
    if out is None:
        output.raw(text)
        return
    with files.writing(out) as opened:
        opened.write(text)


@app.command("drift")
def drift(
    records: _RecordsArgument,
    model: _ModelOption,
    limit: Annotated[
        float | None,
        typer.Option("--limit", min=0, help="Index that counts as drift. Default: 0.25."),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare records with those that a model was trained on; exit code 1 if they have changed."""
    from hawser.ids import drift as drifts
    from hawser.ids.records import read
    from hawser.ids.table import read as read_model

    rows = drifts.drift(read(records), read_model(model))
    most = drifts.LIMIT if limit is None else limit
    if as_json:
        output.document([asdict(row) | {"drifts": row.index > most} for row in rows])
    else:
        cells = [(r.column, f"{r.index:.3f}", f"{r.distance:.3f}") for r in rows]
        output.show(output.table(("column", "stability index ", "distance "), cells))
    moved = [row.column for row in rows if row.index > most]
    output.say(f"{len(moved)} of {len(rows)} columns have an index above {most:g}.")
    if moved:
        raise typer.Exit(1)


app.command("ship")(ids_streams.ship)
app.command("verdicts")(ids_streams.verdicts)
app.command("merge")(ids_streams.merge)
app.add_typer(ids_streams.cluster)


def _need() -> None:
    from hawser.cli import extras

    extras.need("ids")


def _table(model: Model) -> str:
    from hawser.ids.table import write

    return write(model).decode()


def _labelled(
    records: Sequence[Path], labels: Sequence[Path]
) -> tuple[Labelled, Sequence[tuple[Path, str]]]:
    from hawser.ids.records import read
    from hawser.ids.train import labelled
    from hawser.ids.truth import Truth

    truth, formats = Truth.read(labels)
    return labelled(read(records), truth), list(zip(labels, formats, strict=True))


def _unseen(found: Labelled, model: Model) -> Labelled:
    from hawser.ids.errors import IdsError
    from hawser.ids.flows import drawn

    settings = model.training.get("settings", {})
    share, seed = settings.get("share"), settings.get("seed")
    if not isinstance(share, float | int) or not isinstance(seed, int):
        raise IdsError(f"model {model.name}", "its training does not say which flows were drawn")
    return found.only(~drawn(found.records, found.flows, share, seed))


def _all_files(paths: Iterable[Path]) -> Iterable[Path]:
    from hawser.ids.records import stored

    return (file for path in paths for file in stored(path))


def _source(path: Path) -> dict[str, str]:
    with path.open("rb") as opened:
        return {"file": path.name, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def _summary(model: Model) -> Mapping[str, Any]:
    training = {key: value for key, value in model.training.items() if key != "reference"}
    return {
        "name": model.name,
        "version": model.version,
        "threshold": model.threshold,
        "trees": len(model.trees),
        "nodes": sum(len(tree.feature) for tree in model.trees),
        "training": training,
    }


_SHOWN = 10
"""Features of a table, at most."""


def _show_training(trained: Trained) -> None:
    model, training = trained.model, trained.model.training
    flows = ", ".join(f"{count} {label}" for label, count in training["flows"].items())
    output.line(f"{model.name} of {len(model.trees)} trees; {training['records']} records; {flows}")
    if training["unlabelled_flows"]:
        output.say(f"{training['unlabelled_flows']} flows without a label were left out.")
    rows = [(name.replace("_", " "), str(n)) for name, n in training["cross_validation"].items()]
    output.show(output.table((f"cross-validation at {model.threshold:.3f}", "flows "), rows))
    _say_threshold(model)
    important = [(name, f"{loss:.4f}") for name, loss in list(trained.importance.items())[:_SHOWN]]
    output.show(output.table(("feature", "loss of precision if shuffled "), important))
    kept_out = [(name, f"{loss:.4f}") for name, loss in trained.given_away.items()]
    output.show(output.table(("kept out", "loss of a tree that saw it "), kept_out))


def _say_threshold(model: Model) -> None:
    """Say why the threshold may not be a good one."""
    from hawser.ids.train import LEAST_THRESHOLD

    training = model.training
    share, validation = training["settings"]["false_alarms"], training["cross_validation"]
    benign = validation["false_positives"] + validation["true_negatives"]
    if validation["false_positives"] > max(1, benign * share):
        output.say("No threshold keeps false alarms so rare: try another --kind or --depth.")
    elif benign * share < 1 and model.threshold > LEAST_THRESHOLD:
        enough = math.ceil(1e4 / benign) / 1e4
        output.say(
            f"The threshold depends on a single flow: {share:g} of {benign} benign flows is less "
            f"than one. Use more flows, or --false-alarms {enough:g} or more."
        )


def _evaluation(result: Evaluation) -> dict[str, Any]:
    return {
        "all": _group(result.all),
        "short": _group(result.short),
        "long": _group(result.long),
        "by_attack": {name: _group(group) for name, group in result.by_attack.items()},
        "average_precision": result.average_precision,
        "curve": result.curve,
        "calibration": result.calibration,
        "brier": result.brier,
        "unlabelled_flows": result.unlabelled,
    }


def _group(group: Group) -> Mapping[str, Any]:
    return {
        "flows": group.flows.document(),
        "in_time": group.in_time.document(),
        "volume": group.volume.document(),
        "detection_s": group.detection_s,
    }


def _show_evaluation(result: Evaluation) -> None:
    groups = {
        "all flows": result.all,
        "shorter than 2 s": result.short,
        "2 s and longer": result.long,
    }
    titles = ("", "malicious named ", "missed ", "benign named ", "passed ", "right % ")
    rows = [(name, *_counts(group)) for name, group in groups.items()]
    output.show(output.table(titles, rows))
    titles = ("", "named % ", "in time % ", "volume after verdict % ", "median s ", "p99 s ")
    rows = [(name, *_rates(group)) for name, group in (groups | dict(result.by_attack)).items()]
    output.show(output.table(titles, rows))
    rows = [(f"{mean:.2f}", f"{truth:.3f}", str(n)) for mean, truth, n in result.calibration]
    output.show(output.table(("mean score ", "share malicious ", "records "), rows))
    if result.average_precision is not None and result.brier is not None:
        output.line(
            f"Average precision {result.average_precision:.4f}, Brier score {result.brier:.4f}"
        )
    if result.unlabelled:
        output.say(f"{result.unlabelled} flows without a label were left out.")


def _show_replay(replayed: Sequence[Replayed]) -> None:
    titles = (
        *(
            "flows ",
            "within s ",
            "records ",
            "benign blocked ",
            "sources of them ",
            "malicious blocked ",
        ),
        *("% ", "their volume % "),
    )
    rows = [
        (
            *(str(one.policy.flows), f"{one.policy.within_s:g}", str(one.policy.records)),
            *(str(one.benign_blocked), str(one.sources_blocked), str(one.malicious_blocked)),
            _percent(one.malicious_blocked / one.malicious if one.malicious else None),
            _percent(one.malicious_volume_blocked),
        )
        for one in replayed
    ]
    output.show(output.table(titles, rows))


def _counts(group: Group) -> Sequence[str]:
    m = group.flows
    cells = (m.true_positives, m.false_negatives, m.false_positives, m.true_negatives)
    return (*(f"{cell:.0f}" for cell in cells), _percent(m.accuracy))


def _rates(group: Group) -> Sequence[str]:
    shares = (group.flows.recall, group.in_time.recall, group.volume.recall)
    times = ("", "") if group.detection_s is None else [f"{t:.3f}" for t in group.detection_s]
    return (*map(_percent, shares), *times)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _show_explanation(
    number: int, about: Mapping[str, Any], result: Explanation, model: Model
) -> None:
    ends = "{srcip}:{srcport} -> {dstip}:{dstport}, protocol {proto}, {reason}".format(**about)
    verdict = "malicious" if result.is_malicious else "benign"
    output.line(f"record {number}, {ends}")
    output.line(f"score {result.score:.4f}, {verdict} (from {model.threshold:.4f} on malicious)")
    rows = [
        (step.feature, f"{step.value:g}", ">" if step.is_above else "<=", f"{step.threshold:g}")
        for step in result.steps
    ]
    output.show(output.table(("feature", "value ", "", "threshold "), rows))
    unit = "probability" if model.combine == "mean" else "log odds"
    shares = [(name, f"{each:+.4f}") for name, each in result.contributions.items()][:_SHOWN]
    output.show(
        output.table(
            (f"contributions to the {unit}", ""), [("base", f"{result.base:.4f}"), *shares]
        )
    )
