"""``python -m tests.corpus`` asks both compilers about the whole corpus and writes verdicts.json (minutes).

Needs the package installed, or ``PYTHONPATH=src``.
"""

from fa3_matrix import _json, toolkits

from .inputs import read_all
from .verdicts import VERDICTS, VERSIONS, judged

roots = [toolkits.find(version) for version in VERSIONS]
verdicts = {}
for one in read_all():
    print(one.name)
    verdicts[one.name] = judged(one, roots)
releases = {root.version: root.probe().release for root in roots}
_json.write_atomic(VERDICTS, {"toolkits": releases, "inputs": verdicts})
