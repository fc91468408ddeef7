"""Into how many parts the keys of a tile are cut."""

from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.ops import library


def choose(requested, tiles, key_blocks, slots=(132, 2)):
    return library.load().fa3_choose_splits(requested, tiles, key_blocks, *slots)


SLOTS = st.tuples(st.integers(1, 300), st.integers(1, 8))
SIZES = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), SLOTS)


@given(requested=st.integers(0, 10**9), sizes=SIZES)
def test_at_least_one_and_at_most_a_block_each(requested, sizes):
    tiles, key_blocks, slots = sizes
    splits = choose(requested, tiles, key_blocks, slots)
    assert 1 <= splits <= max(key_blocks, 1)
    if requested:
        assert splits <= requested


@given(sizes=SIZES)
def test_a_request_is_met_where_it_can_be(sizes):
    tiles, key_blocks, slots = sizes
    assert choose(3, tiles, key_blocks, slots) == min(3, max(key_blocks, 1))


@given(tiles=st.integers(528, 10**6), key_blocks=st.integers(0, 10**4))
def test_a_full_gpu_is_hardly_split(tiles, key_blocks):
    """Two rounds of tiles keep it busy."""
    assert choose(0, tiles, key_blocks) == 1


def test_few_tiles_of_many_keys_fill_the_gpu():
    """Batch 1 with 8 K/V heads and 8k keys in blocks of 64: by itself it would use 8 of 132 SMs."""
    assert choose(0, 8, 128) == 16  # a CTA an SM: measured sooner than two
    assert 24 <= choose(0, 8, 1024) <= 33  # long enough that memory gives more to two


def test_short_keys_are_not_worth_a_merge():
    assert choose(0, 8, 4) == 1


def test_one_long_entry_among_short_ones_may_take_the_gpu():
    """8 entries of 8 K/V heads, at most 16k keys in blocks of 64: one alone could use 33 of 264 slots for each head."""
    assert choose(0, 64, 256) <= 8
    assert 16 <= choose(0, 64 // 8, 256) <= 66
