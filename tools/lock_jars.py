"""Fetch the jars of Kafka and of Spark's connector anew, and write their hashes down."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from hawser.ids.cluster import jars
from repository import ROOT


def main() -> None:
    """Write `src/hawser/ids/cluster/NAME.sha256` of each `NAME.pom.xml`."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for pom in sorted((ROOT / "src/hawser/ids/cluster").glob("*.pom.xml")):
        name = pom.name.removesuffix(".pom.xml")
        with tempfile.TemporaryDirectory() as work:
            fetched = Path(work) / "jars"
            jars.fetch(name, fetched)
            pom.with_name(f"{name}.sha256").write_text(jars.lock_of(fetched))


if __name__ == "__main__":
    main()
