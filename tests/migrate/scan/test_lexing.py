"""Comments, strings and pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import DIFFERENCE
from wanted import found, wanted

from fa3_matrix.migrate.scan import cxx, lexing

_TEXTS = st.lists(
    st.sampled_from(
        [
            "//",
            "/*",
            "*/",
            '"',
            "'",
            "\\",
            "\n",
            "\r\n",
            'R"x(',
            ')x"',
            "a",
            "1'0",
            "ü",
            "{",
            "}",
            " ",
        ]
    ),
    max_size=50,
).map("".join)


@given(_TEXTS)
def test_offsets_stay(text: str) -> None:
    lexed = lexing.lex(text)
    assert len(lexed.code) == len(text)
    assert [i for i, c in enumerate(text) if c in "\r\n"] == [
        i for i, c in enumerate(lexed.code) if c in b"\r\n"
    ]
    for start, end in lexed.strings:
        assert not lexed.code[start:end].strip()


def test_what_is_blanked() -> None:
    text = 'a // b\nc /* d\n e */ f "g\\"h" \'i\' 1\'000\'000 R"x(j)")x" k'
    assert lexing.lex(text).code == (
        b"a     \nc     \n      f \"    \" ' ' 1'000'000 R\"x(   )x\" k"
    )


@given(_TEXTS, st.integers(1, 20))
def test_pieces_are_the_whole(text: str, size: int) -> None:
    code = lexing.lex(text).code
    spans = list(lexing.pieces(code, size))
    assert b"".join(code[start:end] for start, end in spans) == code


def test_pieces_of_a_long_file_know_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
struct Context { cudaDeviceProp prop; };
cudaDeviceProp device_prop;
int f(Context *c) { return c->prop.clockRate; }  // want: FIELD-REMOVED
int g() { return device_prop.clockRate; }  // want: FIELD-REMOVED
struct Other { int clockRate; };
Other other;
int h() { cudaThreadSynchronize(); return other.clockRate; }  // want: FN-REMOVED
"""
    monkeypatch.setattr(cxx, "pieces", lambda view: lexing.pieces(view, 10))
    assert found(cxx.find("a.cu", code, DIFFERENCE)) == wanted(code)
