"""Conditions under both toolkits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.migrate.scan.preprocessor import Environment, Macro, Truth, toolkit_macros


def _environment(**macros: Macro) -> Environment:
    return Environment(toolkit_macros("13.3", "3.5.0") | macros)


TRUE, FALSE, PROJECT, EITHER = Truth.TRUE, Truth.FALSE, Truth.PROJECT, Truth.EITHER


@pytest.mark.parametrize(
    "condition, truth",
    [
        ("CUDART_VERSION < 13000", FALSE),
        ("CUDA_VERSION >= 13000", TRUE),
        ("(CUDART_VERSION/1000) == 13 && CUDART_VERSION % 1000 / 10 == 3", TRUE),
        ("__CUDACC_VER_MAJOR__ > 12 || 0", TRUE),
        ("__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1300", FALSE),
        ("!defined(CUDART_VERSION)", FALSE),
        ("defined CUDART_VERSION && CUDART_VERSION >= 12'000uL", TRUE),
        ("THRUST_VERSION >= 200000 && CUB_VERSION < 300000", FALSE),
        ("CCCL_VERSION >= 3000000 && CCCL_MAJOR_VERSION == 3", TRUE),
        ("_CCCL_CTK_AT_LEAST(13, 0) && !_CCCL_CUDACC_BELOW(13, 3)", TRUE),
        ("SOMETHING", PROJECT),
        ("defined(SOMETHING)", PROJECT),
        ("SOMETHING && CUDART_VERSION < 13000", FALSE),
        ("SOMETHING || CUDART_VERSION >= 13000", TRUE),
        ("SOMETHING && CUDART_VERSION >= 13000", PROJECT),
        ("__CUDA_ARCH__ >= 700", EITHER),
        ("defined(_WIN32) || SOMETHING", EITHER),
        ("defined(__HIP_PLATFORM_AMD__) || HIP_VERSION > 5", FALSE),
        ("CUDART_VERSION >= 13000 ? 0 : 1", FALSE),
        ("~0 == -1 && 0x10 == 16 && 010 == 8 && 0b11 == 3", TRUE),
        ("__has_include(<thrust/optional.h>)", PROJECT),
        ("1 / 0", PROJECT),
        ("CUDART_VERSION >", PROJECT),
        ("@ what", PROJECT),
        ("", PROJECT),
        ("(" * 10_000 + "1", PROJECT),
        ("!" * 10_000 + "1", PROJECT),
    ],
)
def test_truth_under_the_new_toolkit(condition: str, truth: Truth) -> None:
    assert _environment().truth(condition) is truth


def test_macros_are_expanded_as_text() -> None:
    macros = {
        "SUM": Macro("1 + 2"),
        "NEW": Macro("(CUDART_VERSION >= 13000)"),
        "AT_LEAST": Macro("(CUDART_VERSION >= (major) * 1000 + (minor) * 10)", ("major", "minor")),
        "LOOP": Macro("LOOP + 1"),
        **{f"B{i}": Macro(f"B{i + 1} + B{i + 1}") for i in range(60)},
    }
    environment = _environment(**macros)
    assert environment.truth("SUM * 2 == 5") is TRUE
    assert environment.truth("NEW") is TRUE
    assert environment.truth("AT_LEAST(13, 4)") is FALSE
    assert environment.truth("LOOP == 1") is PROJECT
    assert environment.truth("B0") is PROJECT


def test_has_include_asks_for_the_header() -> None:
    environment = Environment({}, {"a/b.h": False}.get)
    assert environment.truth("__has_include(<a/b.h>)") is FALSE
    assert environment.truth('defined(__has_include) && !__has_include("a/b.h")') is EITHER


def _applied(left: tuple[str, str], symbol: str, right: tuple[str, str]) -> tuple[str, str]:
    python = {
        "&&": f"int(bool({left[1]}) and bool({right[1]}))",
        "||": f"int(bool({left[1]}) or bool({right[1]}))",
    }.get(symbol, f"int(({left[1]}) {symbol} ({right[1]}))")
    return f"({left[0]}) {symbol} ({right[0]})", python


# The same expression for the preprocessor and for Python.
_EXPRESSIONS = st.recursive(
    st.integers(0, 20).map(lambda number: (str(number), str(number))),
    lambda inner: st.builds(
        _applied,
        inner,
        st.sampled_from(list("+-*<>&|^") + ["<=", ">=", "==", "!=", "&&", "||"]),
        inner,
    ),
    max_leaves=12,
)


@given(_EXPRESSIONS)
def test_arithmetic_is_that_of_integers(expression: tuple[str, str]) -> None:
    condition, python = expression
    truth = Environment({}).truth(condition)
    assert truth is (TRUE if eval(python) else FALSE)


@given(st.text(alphabet="()!&|<>=+-*/%?:, 01aB_#\"'\\", max_size=60))
def test_no_condition_stops_it(condition: str) -> None:
    assert Environment({}).truth(condition) in Truth
