"""cpp/attention's index logic, compiled as plain C++ and held against its definition."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

HERE = Path(__file__).parent
BLOCK_N = 64
LENGTH_LIMIT = 2**30 - 256  # the host refuses longer sequences

lengths = st.one_of(st.integers(0, 300), st.integers(0, LENGTH_LIMIT))
small_lengths = st.integers(0, 300)
windows = st.one_of(st.just(-1), st.integers(0, 320), st.integers(0, 2**31 - 1))
any_int32 = st.integers(-(2**31), 2**31 - 1)


@pytest.fixture(scope="module")
def logic(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    library = tmp_path_factory.mktemp("logic") / "attention_logic.so"
    flags = [
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsanitize=undefined",
        "-fno-sanitize-recover",
    ]
    include = HERE.parents[1] / "cpp"
    source = HERE / "attention_logic.cpp"
    subprocess.run(
        [compiler, *flags, "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True
    )
    return ctypes.CDLL(str(library))


def call(
    function: "ctypes._FuncPointer", *arguments: int | list[int], returns: int, wide: bool = False
) -> list[int]:
    out = ((ctypes.c_int64 if wide else ctypes.c_int32) * returns)()
    converted = [
        (ctypes.c_int32 * len(a))(*a) if isinstance(a, list) else ctypes.c_int32(a)
        for a in arguments
    ]
    function(*converted, out)
    return list(out)


def visible(used_q: int, used_k: int, left: int, right: int, row: int) -> range:
    """Keys of a row under a bottom-right aligned window; -1 leaves a side open."""
    diagonal = row + used_k - used_q
    begin = 0 if left < 0 else max(0, diagonal - left)
    end = used_k if right < 0 else min(used_k, diagonal + right + 1)
    return range(begin, end)


@given(used_q=lengths.filter(bool), used_k=lengths, left=windows, right=windows, data=st.data())
def test_keys_of_a_row(
    logic: ctypes.CDLL, used_q: int, used_k: int, left: int, right: int, data: st.DataObject
) -> None:
    row = data.draw(st.integers(0, used_q - 1))
    begin, end = call(logic.keys_of, used_q, used_k, left, right, row, returns=2)
    expected = visible(used_q, used_k, left, right, row)
    assert range(begin, end) == expected or (begin >= end and not expected)


near_a_block = st.integers(-20, 150)


@given(
    begin=near_a_block, end=near_a_block, first_key=st.integers(0, LENGTH_LIMIT), far=st.booleans()
)
def test_the_mask_bits_of_a_lane(
    logic: ctypes.CDLL, begin: int, end: int, first_key: int, far: bool
) -> None:
    end = LENGTH_LIMIT if far else end + first_key
    bits = logic.seen_scores(begin + first_key, end, first_key)
    keys = [first_key + score // 2 * 8 + score % 2 for score in range(32)]
    assert [bool(bits >> score & 1) for score in range(32)] == [
        begin + first_key <= key < end for key in keys
    ]


@given(
    used_q=small_lengths, used_k=small_lengths, left=windows, right=windows, tile=st.integers(0, 4)
)
def test_blocks_cover_exactly_what_a_tile_sees(
    logic: ctypes.CDLL, used_q: int, used_k: int, left: int, right: int, tile: int
) -> None:
    first, rows = tile * 64, 64
    begin, end, full_begin, full_end = call(
        logic.blocks_of, used_q, used_k, left, right, first, rows, returns=4
    )
    seen = [
        visible(used_q, used_k, left, right, row) for row in range(first, min(first + rows, used_q))
    ]
    needed = {key // BLOCK_N for keys in seen for key in keys}
    assert needed <= set(range(begin, end)), "a block with visible keys is skipped"
    assert begin >= 0 and end <= -(-used_k // BLOCK_N), "a block past the last key is read"
    for block in range(max(begin, full_begin), min(end, full_end)):
        keys = range(block * BLOCK_N, (block + 1) * BLOCK_N)
        assert all(key in row for row in seen for key in (keys[0], keys[-1])), (
            "an unmasked block has masked keys"
        )


def test_full_blocks_are_found(logic: ctypes.CDLL) -> None:
    # 256 queries on 256 keys: the causal tile of rows 128..191 sees blocks 0..2, of which 0 and 1 whole.
    assert call(logic.blocks_of, 256, 256, -1, 0, 128, 64, returns=4) == [0, 3, 0, 2]
    assert call(logic.blocks_of, 256, 256, -1, -1, 128, 64, returns=4) == [0, 4, 0, 4]


@given(
    cu_q=st.tuples(any_int32, any_int32),
    cu_k=st.tuples(any_int32, any_int32),
    total_q=lengths,
    total_k=lengths,
    used_q=any_int32,
    used_k=any_int32,
)
def test_lying_indices_stay_inside_the_tensors(
    logic: ctypes.CDLL,
    cu_q: tuple[int, int],
    cu_k: tuple[int, int],
    total_q: int,
    total_k: int,
    used_q: int,
    used_k: int,
) -> None:
    q_row, k_row, slot_q, rows_q, rows_k = call(
        logic.sequence_of,
        list(cu_q),
        list(cu_k),
        total_q,
        total_k,
        used_q,
        used_k,
        returns=5,
        wide=True,
    )
    assert q_row >= 0 and 0 <= rows_q <= slot_q and q_row + slot_q <= total_q
    assert k_row >= 0 and rows_k >= 0 and k_row + rows_k <= total_k


def test_honest_indices_are_taken_as_they_are(logic: ctypes.CDLL) -> None:
    out = call(logic.sequence_of, [10, 30], [100, 400], 50, 500, 15, 200, returns=5, wide=True)
    assert out == [10, 100, 20, 15, 200]
    out = call(logic.sequence_of, [10, 30], [100, 400], 50, 500, -1, -1, returns=5, wide=True)
    assert out == [10, 100, 20, 20, 300]


@given(m_blocks=st.integers(1, 6), heads=st.integers(1, 6), batch=st.integers(1, 6), data=st.data())
def test_every_tile_once_and_longest_first(
    logic: ctypes.CDLL, m_blocks: int, heads: int, batch: int, data: st.DataObject
) -> None:
    section = data.draw(st.integers(1, heads * batch))
    tiles = [
        tuple(call(logic.tile_of, m_blocks, heads, batch, section, index, returns=3))
        for index in range(m_blocks * heads * batch)
    ]
    assert sorted(tiles) == [
        (m, h, b) for m in range(m_blocks) for h in range(heads) for b in range(batch)
    ]
    for end in range(len(tiles), 0, -section * m_blocks):  # the first section takes what is left
        rows = [m for m, _, _ in tiles[max(end - section * m_blocks, 0) : end]]
        assert rows == sorted(rows, reverse=True)


@given(
    lengths=st.lists(st.integers(0, 400), min_size=1, max_size=5),
    heads=st.integers(1, 4),
    hint=st.integers(1, 4),
    ctas=st.integers(1, 9),
    fixed=st.booleans(),
    order=st.lists(st.integers(0, 8), max_size=80),
)
def test_a_persistent_grid_hands_out_every_tile_once(
    logic: ctypes.CDLL,
    lengths: list[int],
    heads: int,
    hint: int,
    ctas: int,
    fixed: bool,
    order: list[int],
) -> None:
    """Whatever the CTAs' speeds, the lengths, and a max_seqlen that is too small; and the counter ends at zero."""
    batch = len(lengths)
    ctas = min(ctas, hint * heads * batch)
    expected = [
        (b, h, row)
        for b, length in enumerate(lengths)
        for h in range(heads)
        for row in range(0, length, 64)
    ]
    starts = [sum(lengths[:i]) for i in range(batch + 1)]
    counter = ctypes.c_uint32(0)
    capacity = len(expected) + 8
    out = (ctypes.c_int32 * (3 * capacity))()
    count = logic.walk_tiles(
        hint, heads, batch, ctas, (ctypes.c_int32 * len(starts))(*starts), -1 if fixed else 0,
        (ctypes.c_int32 * len(order))(*order), len(order), ctypes.byref(counter), capacity, out,
    )  # fmt: skip
    assert sorted(tuple(out[3 * i : 3 * i + 3]) for i in range(count)) == expected
    assert counter.value == 0
