"""Plans are made of the same files that the workflow's tests use."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "spec"))
