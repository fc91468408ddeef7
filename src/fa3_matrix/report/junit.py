"""The gate's verdicts as JUnit XML, which continuous integration shows as tests."""

import re
from xml.etree import ElementTree

from fa3_matrix.report.inputs import Json

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(gate: Json | None) -> str:
    """One test case a cell: a failed cell is a failure, one that is inconclusive or has no pair is skipped.

    An incomplete or void run has one case more, an error: skipped cells alone would look green. `gate`: the report's
    data of it; without one there is no case.
    """
    cells = [] if gate is None else [_case(cell) for cell in gate["cells"]]
    spoilt = gate is not None and gate["outcome"] in ("incomplete", "void")
    if gate is not None and spoilt:
        case = ElementTree.Element("testcase", classname="gate", name="the run as a whole")
        error = ElementTree.SubElement(case, "error", message=_text(gate["meaning"]))
        error.text = _text("\n".join(gate["reasons"]))
        cells.append(case)
    suite = ElementTree.Element(
        "testsuite",
        name="gate",
        tests=str(len(cells)),
        failures=str(_count(cells, "failure")),
        errors=str(_count(cells, "error")),
        skipped=str(_count(cells, "skipped")),
    )
    suite.extend(cells)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _count(cases: list[ElementTree.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _case(cell: Json) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=_text(f"gate.{cell['suite']}"),
        name=_text(f"{cell['problem']} ({cell['mode']})"),
    )
    message = _text(cell["reason"])
    match cell["verdict"]:
        case "fail":
            failure = ElementTree.SubElement(case, "failure", message=message)
            failure.text = _text("\n".join(_details(cell)))
        case "inconclusive":
            ElementTree.SubElement(case, "skipped", message=f"inconclusive: {message}")
        case "no-pair":
            ElementTree.SubElement(case, "skipped", message=f"no pair: {message}")
    return case


def _details(cell: Json) -> list[str]:
    lines = [cell["label"], f"head over base: {cell['ratio']:.4f}"]
    if cell["interval"] is not None:
        low, high = cell["interval"]
        lines.append(f"{cell['level']:.0%} interval: {low:.4f} to {high:.4f}")
    lines.append(f"adjusted p: {cell['p_adjusted']:.2g}")
    return [*lines, *cell["hints"]]


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
