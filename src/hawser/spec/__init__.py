"""What an experiment is: a file in, a frozen `Workflow` out, or every mistake with its place.

    workflow = load("workflows/quickstart.yaml", lambda name: Path(name).read_bytes())

Pure: the caller reads files, here nothing is opened.
"""

from hawser.spec.errors import SpecError, SpecErrors
from hawser.spec.load import load
from hawser.spec.needs import Feature, needs
from hawser.spec.schema import schema
from hawser.spec.workflow import Scenario, Variant, Workflow

__all__ = [
    "Feature",
    "Scenario",
    "SpecError",
    "SpecErrors",
    "Variant",
    "Workflow",
    "load",
    "needs",
    "schema",
]
