"""Helper modules of these tests: import-mode=importlib puts no folder on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
