"""Probes: small programs that each toolkit compiles and one GPU runs, to see what no header shows.

`fa3_matrix.migrate.behaviour` states what is documented of behaviour, and the scanner looks for it; here is observed
whether it is so. `python -m fa3_matrix.migrate.probes build OUT` needs the toolkits and no GPU, ``run OUT`` a GPU and
no toolkit and no package but this one.
"""

from fa3_matrix.migrate.probes.observations import Observations, Probed, Run, Status, read, write
from fa3_matrix.migrate.probes.run import run

__all__ = ["Observations", "Probed", "Run", "Status", "read", "run", "write"]
