"""Run bundles: the description of a run and its samples. `hawser.store.query` adds SQL."""

from hawser.store.bundle import Bundle, Trial, label
from hawser.store.errors import BundleError, QueryError, StoreError
from hawser.store.machine import this_machine
from hawser.store.manifest import Machine, Manifest, Revision, TrialPlan, TrialRecord, run_id
from hawser.store.runs import RunInfo, runs
from hawser.store.sample import Direction, Sample, of_trial
from hawser.store.writer import RunWriter, TrialWriter

__all__ = [
    "Bundle",
    "BundleError",
    "Direction",
    "Machine",
    "Manifest",
    "QueryError",
    "Revision",
    "RunInfo",
    "RunWriter",
    "Sample",
    "StoreError",
    "Trial",
    "TrialPlan",
    "TrialRecord",
    "TrialWriter",
    "label",
    "of_trial",
    "run_id",
    "runs",
    "this_machine",
]
