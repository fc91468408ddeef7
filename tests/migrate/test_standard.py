"""Names of the standard library that CCCL's headers brought in; `witness` proves them."""

from fa3_matrix.migrate.standard import standard_rows

ROWS = list(standard_rows("2.3.2", "3.5.0"))


def test_rows_are_of_the_major_that_dropped_them() -> None:
    assert ROWS
    assert not list(standard_rows("3.0.0", "3.5.0"))
    assert not list(standard_rows("2.3.2", "2.8.0"))


def test_no_header_both_lost_a_name_and_brings_it() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert not set(row.lost_from) & {row.where, *row.brought_by}
        assert len(set(row.lost_from)) == len(row.lost_from)
