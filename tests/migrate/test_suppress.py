"""Comments that declare a finding harmless."""

from pathlib import Path

import pytest

from fa3_matrix.migrate import suppress

from .small_difference import finding

REASON = "built by 12.4 alone"


@pytest.mark.parametrize(
    "text, line",
    [
        (f"f(); // fa3-migrate: ignore[FN-REMOVED] {REASON}", 1),
        (f"// fa3-migrate: ignore[FN-REMOVED] {REASON}\nf();", 2),
        (f"/* fa3-migrate: ignore[FN-REMOVED] {REASON} */ f();", 1),
        (f"/* fa3-migrate: ignore[FN-REMOVED] {REASON} */\nf();", 2),
        (f"/*\n * fa3-migrate: ignore[FN-REMOVED] {REASON}\n */ f();", 2),
        (f"# fa3-migrate: ignore[FN-REMOVED]: {REASON}\nf", 2),
        (f"f # noqa # fa3-migrate: ignore[FN-SIG, FN-REMOVED] - {REASON}", 1),
        (f"// fa3-migrate: ignore[FN-REMOVED] {REASON}\r\nf();\r\n", 2),
        (f"# fa3-migrate: ignore[FN-REMOVED] {REASON}\n# fa3-migrate: ignore[FN-SIG] other\nf", 3),
        (f"# fa3-migrate: ignore[FN-REMOVED] {REASON}\nnvcc \\\n -a \\\n f", 4),
    ],
)
def test_a_comment_on_the_line_or_above_suppresses(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "a.cu").write_bytes(text.encode())
    done = suppress.apply(tmp_path, [finding(line=line)])
    assert [f.suppressed for f in done.findings] == [REASON]
    assert done.problems == ()


@pytest.mark.parametrize(
    "text, line",
    [
        (f"f(); // fa3-migrate: ignore[FN-REMOVED] {REASON}\nf();", 2),  # speaks of its own line
        (f"// fa3-migrate: ignore[FN-REMOVED] {REASON}\n\nf();", 3),
        (f"// fa3-migrate: ignore[FN-SIG] {REASON}\nf();", 2),
        (f'f("fa3-migrate: ignore[FN-REMOVED] {REASON}");', 1),  # no comment
        (f"f();\n// fa3-migrate: ignore[FN-REMOVED] {REASON}", 1),
    ],
)
def test_other_comments_do_not(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "a.cu").write_text(text)
    assert suppress.apply(tmp_path, [finding(line=line)]).findings[0].suppressed is None


@pytest.mark.parametrize(
    "comment, problem",
    [
        ("ignore[FN-REMOVED]", "gives no reason"),
        ("ignore[FN-REMOVED] */", "gives no reason"),
        ("ignore all of it", "names no rule"),
        ("ignore[] all of it", "names no rule"),
        ("ignore[FN-GONE] reason", "no such rule: FN-GONE"),
    ],
)
def test_a_comment_without_effect_is_a_problem(tmp_path: Path, comment: str, problem: str) -> None:
    (tmp_path / "a.cu").write_text(f"\nf(); // fa3-migrate: {comment}\n")
    done = suppress.apply(tmp_path, [finding(line=2)])
    assert done.findings[0].suppressed is None
    assert len(done.problems) == 1
    assert done.problems[0].startswith("a.cu:2: ")
    assert problem in done.problems[0]


def test_a_file_that_has_gone_suppresses_nothing(tmp_path: Path) -> None:
    assert suppress.apply(tmp_path, [finding()]).findings == (finding(),)


def test_findings_keep_their_order_and_number(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(f"f(); // fa3-migrate: ignore[FN-REMOVED] {REASON}\nf();\n")
    given = [finding(line=2), finding(line=1), finding(file="b.cu")]
    done = suppress.apply(tmp_path, given).findings
    assert [(f.file, f.line, f.suppressed) for f in done] == [
        ("a.cu", 2, None),
        ("a.cu", 1, REASON),
        ("b.cu", 1, None),
    ]
