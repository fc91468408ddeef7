"""The line of every entry, and what a reader says of wrong values."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix._toml import Document, Table

TEXT = '''\
title = "a # not a comment"  # a comment
"quoted key" = 'lit#eral'
text = """
[not.a.table]
ends in quotes: ""\\""""

[one]
a = 1
b.c = [ # comment with ]
  "x, y",
  { k = [1, 2], "]" = 2 },
]

[one.two]
d = {x = 1, y.z = 2}

[[rows]]
name = "first"
[[rows]]
name = "second"
[rows.sub]
deep = 1979-05-27 07:32:00
[[rows.inner]]
v = 1
[[rows.inner]]
v = 2
'''


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (("title",), 1),
        (("quoted key",), 2),
        (("text",), 3),
        (("one",), 7),
        (("one", "a"), 8),
        (("one", "b"), 9),
        (("one", "b", "c"), 9),
        (("one", "b", "c", 0), 10),
        (("one", "b", "c", 1), 11),
        (("one", "b", "c", 1, "k"), 11),
        (("one", "b", "c", 1, "k", 1), 11),
        (("one", "b", "c", 1, "]"), 11),
        (("one", "two"), 14),
        (("one", "two", "d", "y", "z"), 15),
        (("rows", 0), 17),
        (("rows", 0, "name"), 18),
        (("rows", 1), 19),
        (("rows", 1, "sub"), 21),
        (("rows", 1, "sub", "deep"), 22),
        (("rows", 1, "inner", 0, "v"), 24),
        (("rows", 1, "inner", 1, "v"), 26),
        (("one", "a", "missing"), 8),
        (("missing",), 1),
    ],
)
def test_line_of_an_entry(location: tuple[str | int, ...], line: int) -> None:
    assert Document(TEXT, "test.toml").line(location) == line


def _locations(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [p for key, inner in items for p in [(*at, key), *_locations(inner, (*at, key))]]


def test_every_entry_has_a_line_of_its_own() -> None:
    document = Document(TEXT, "test.toml")
    assert set(document.lines) == set(_locations(tomllib.loads(TEXT)))


@given(
    st.lists(
        st.sampled_from(
            [
                'k = "a\\\\"',
                "k = '''\n]\n'''",
                'k = """\n\\""""',
                "k = [1,\n[2, 3],\n]",
                "k = {a = 1}",
                "k = 1",
            ]
        ),
        max_size=8,
    )
)
def test_tables_after_any_value_keep_their_lines(values: list[str]) -> None:
    text = "".join(f"[t{i}]\n{value}\n" for i, value in enumerate(values))
    document = Document(text, "test.toml")
    lines = text.split("\n")
    for i in range(len(values)):
        assert lines[document.line((f"t{i}",)) - 1] == f"[t{i}]"
        assert lines[document.line((f"t{i}", "k")) - 1].startswith("k = ")


def test_invalid_toml_names_the_file() -> None:
    with pytest.raises(MatrixError, match=r"^m\.toml: not valid TOML: .*line 2"):
        Document("a = 1\nb =\n", "m.toml")


def read(text: str) -> Table:
    return Document(text, "m.toml").root()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 'a'", "x = 'a': must be an integer"),
        ("x = true", "x = True: must be an integer"),
        ("x = 9", "x = 9: must be 1 to 8"),
        ("y = 1", "missing key 'x'"),
    ],
)
def test_wrong_integers(text: str, message: str) -> None:
    with pytest.raises(MatrixError) as caught:
        read(text).integer("x", 1, 8)
    assert str(caught.value) == f"m.toml:1: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = []", "x is empty"),
        ("x = ['a', 'a']", "x = ['a', 'a']: an entry is repeated"),
        ("x = [1]", "x holds 1: each must be a string"),
        ("x = ['c']", "x holds 'c': must be among a, b"),
    ],
)
def test_wrong_lists(text: str, message: str) -> None:
    with pytest.raises(MatrixError) as caught:
        read(text).choices("x", ("a", "b"))
    assert str(caught.value) == f"m.toml:1: {message}"


def test_one_value_stands_for_a_list_of_one() -> None:
    assert read("x = 'a'").choices("x", ("a", "b")) == ["a"]


def test_keys_that_nothing_asked_for_are_refused_with_the_known_ones() -> None:
    table = read("a = 1\ntypo = 2")
    table.integer("a")
    assert "optional" not in table
    with pytest.raises(MatrixError) as caught:
        table.done()
    assert str(caught.value) == "m.toml:2: unknown key 'typo'; known here: a, optional"
