"""A collector: where the flow records of all sensors go while a trial is measured."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hawser.spec.model import Model, Name


class Collector(Model):
    """Kafka, and with a model the job on Spark, on a node of their own.

    Gives `records_shipped`, `records_stored` and `records_missing`. Sensors' logs are read where
    they are written: no record crosses a link of the lab.
    """

    node: Name
    """The node, which does nothing else; its `cpu` limits all of it."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """File of the model beside the workflow with which the job on Spark scores the records that it
    stores. Default: Kafka alone."""
