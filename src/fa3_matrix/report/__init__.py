"""The report in `build/report`: `index.html`, `report.md` and `report.json`, from the stages' JSON alone.

Of migration there is `migration.html` besides, to which the page points. Of the gate's verdicts also
`junit.xml`, and `annotations.txt`: workflow commands for GitHub, to be printed there.

`fa3_matrix.report.inputs` says which files are read and what is in them; `model` turns them into the
data of `report.json`; `render` turns that into pages.
"""

from pathlib import Path

from fa3_matrix import _json, matrix
from fa3_matrix.report import gate_page, inputs, junit, migration, model, render
from fa3_matrix.report.inputs import Json

__all__ = ["write"]


def write(build: Path, out: Path | None = None) -> Json:
    """Writes the report of the stages' JSON under `build` into `out` (`build/report`) and returns its data.

    Raises Fa3Error when one of the inputs can't be read. Nothing need have been built: what is
    missing is shown as not built or not run.
    """
    out = out or build / "report"
    stated, found = matrix.load(), inputs.read(build)
    report = model.assemble(stated, found)
    _json.write_atomic(out / "report.json", report)
    _json.write_text_atomic(out / "report.md", render.markdown(report))
    _json.write_text_atomic(out / "index.html", render.html(report))
    _json.write_text_atomic(out / migration.PAGE, migration.page(stated, found))
    _json.write_text_atomic(out / "junit.xml", junit.document(report["gate"]))
    _json.write_text_atomic(out / "annotations.txt", gate_page.annotations(report))
    return report
