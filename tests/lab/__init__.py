"""What tests over real packets stand on.

`namespace` makes namespaces, `daemon` starts `hawserd` in one, `control` talks to it; `waiting`,
`fixtures` and `machine` serve all. `gateway`, `function` and `load` are topologies
of these, without the driver. `plans` are labs for the driver, `traffic` is what goes
through either, `run` starts `hawser` and its probes, `programs` stand in for others.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""
PROGRAMS = Path(__file__).parent / "programs"
