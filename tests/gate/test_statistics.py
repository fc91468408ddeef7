"""Each statistic against its definition, or against what it promises of data drawn from its own model.

Seeds are fixed. Where chance decides, the tolerance is a bound that a correct statistic breaks with the probability
``RARE`` over all seeds.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from fa3_matrix.gate.statistics import (
    Prior,
    benjamini_hochberg,
    bootstrap_interval,
    clopper_pearson,
    detectable_effect,
    fit_prior,
    holm,
    moderate,
    trial_deviation,
)
from fa3_matrix.gate.trials import FloatArray

RARE = 1e-3
MARGIN = math.log1p(0.005)
DEVIATION = 0.004  # of a trial's statistic


def hierarchical(
    cells: int, trials: int, prior_df: float, effect: float = 0.0, seed: int = 1
) -> FloatArray:
    """Effects (cells, trials) from the moderated t's own model: variances scaled inverse chi-squared."""
    generator = np.random.default_rng(seed)
    variances = np.full(cells, DEVIATION**2)
    if math.isfinite(prior_df):
        variances *= prior_df / generator.chisquare(prior_df, cells)
    return effect + generator.normal(size=(cells, trials)) * np.sqrt(variances)[:, None]


@pytest.mark.parametrize("prior_df", [2.0, 8.0, math.inf])
@pytest.mark.parametrize("trials", [5, 10])
def test_at_the_margin_p_is_uniform(trials: int, prior_df: float) -> None:
    p = moderate(hierarchical(2000, trials, prior_df, MARGIN)).p_above(MARGIN)
    assert stats.kstest(p, "uniform").pvalue > RARE


@pytest.mark.parametrize("prior_df", [2.0, 8.0, math.inf])
def test_without_an_effect_the_two_sided_p_is_uniform(prior_df: float) -> None:
    p = moderate(hierarchical(2000, 5, prior_df)).p_two_sided()
    assert stats.kstest(p, "uniform").pvalue > RARE


def test_below_the_margin_p_is_conservative() -> None:
    p = moderate(hierarchical(2000, 5, 8.0, 0.0)).p_above(MARGIN)
    assert stats.kstest(p, "uniform", alternative="greater").pvalue > RARE
    assert np.mean(p <= 0.05) < 0.01


def test_intervals_cover_what_they_promise() -> None:
    cells = 2000
    low, high = moderate(hierarchical(cells, 5, 8.0, 0.01)).interval(0.95)
    covered = int(((low < 0.01) & (high > 0.01)).sum())
    lowest, highest = stats.binom.ppf([RARE / 2, 1 - RARE / 2], cells, 0.95)
    assert lowest <= covered <= highest


@pytest.mark.parametrize("prior_df", [3.0, 8.0, 30.0])
def test_the_prior_is_found_again(prior_df: float) -> None:
    variances = np.var(hierarchical(20_000, 10, prior_df), axis=1, ddof=1)
    prior = fit_prior(variances, 9)
    assert prior.df == pytest.approx(prior_df, rel=0.15)
    assert math.sqrt(prior.variance) == pytest.approx(DEVIATION, rel=0.02)


def test_the_prior_solves_its_moment_equations() -> None:
    variances = np.var(hierarchical(100, 5, 3.0), axis=1, ddof=1)
    prior = fit_prior(variances, 4)
    logs = np.log(variances)
    assert special.polygamma(1, prior.df / 2) + special.polygamma(1, 2) == pytest.approx(
        np.var(logs, ddof=1)
    )
    expected = math.log(prior.variance) + special.digamma(2) - math.log(2)
    assert np.mean(logs) == pytest.approx(
        expected - special.digamma(prior.df / 2) + math.log(prior.df / 2)
    )


def test_cells_of_one_variance_make_an_infinite_prior() -> None:
    prior = fit_prior([2e-6, 2.1e-6, 1.9e-6, 2e-6], 4)
    assert prior == Prior(math.inf, pytest.approx(2e-6))


def test_without_a_prior_it_is_the_ordinary_t() -> None:
    effects = hierarchical(50, 5, 8.0, 0.003)
    ours = moderate(effects, Prior(1e-12, DEVIATION**2))
    plain = stats.ttest_1samp(effects, MARGIN, axis=1, alternative="greater")
    np.testing.assert_allclose(ours.p_above(MARGIN), plain.pvalue, rtol=1e-9)
    interval = stats.ttest_1samp(effects, 0, axis=1).confidence_interval(0.95)
    np.testing.assert_allclose(ours.interval(0.95), (interval.low, interval.high), rtol=1e-9)


def test_a_cell_alone_has_the_ordinary_t() -> None:
    effects = hierarchical(1, 5, 8.0, 0.003)
    plain = stats.ttest_1samp(effects[0], 0)
    assert moderate(effects).p_two_sided()[0] == pytest.approx(plain.pvalue)


def test_with_an_infinite_prior_it_is_a_z_test() -> None:
    effects = hierarchical(2000, 5, math.inf)
    ours = moderate(effects, Prior(math.inf, DEVIATION**2)).p_two_sided()
    z = effects.mean(axis=1) / (DEVIATION / math.sqrt(5))
    np.testing.assert_allclose(ours, 2 * stats.norm.sf(np.abs(z)), rtol=0.01)


def test_few_cells_lend_no_more_than_they_have() -> None:
    assert moderate(hierarchical(2, 5, math.inf), Prior(math.inf, 1e-5)).df == 2 * 4


def test_moderation_gains_power_on_few_trials() -> None:
    effects = hierarchical(2000, 5, 8.0, 0.01)
    plain = stats.ttest_1samp(effects, MARGIN, axis=1, alternative="greater").pvalue
    moderated = moderate(effects).p_above(MARGIN)
    assert np.mean(moderated < 1e-3) > 1.5 * np.mean(plain < 1e-3)


def test_trials_that_agree_to_the_last_digit_are_still_tested() -> None:
    means = moderate([[0.0] * 5, [0.03] * 5, [0.0] * 5])
    assert means.p_two_sided()[0] == 1
    assert means.p_above(MARGIN)[1] < 1e-6


@pytest.mark.parametrize("effects", [[[0.1]], [[0.1, math.nan]], [], [0.1, 0.2]])
def test_what_cannot_be_tested_is_refused(effects: list[object]) -> None:
    with pytest.raises(ValueError, match="effect"):
        moderate(effects)


probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def brute_force_holm(p: list[float], alpha: float) -> list[bool]:
    """Holm's steps as he states them: from the smallest p, stop at the first above alpha over what is left."""
    rejected = [False] * len(p)
    left = len(p)
    for index in sorted(range(len(p)), key=p.__getitem__):
        if p[index] * left > alpha:
            break
        rejected[index] = True
        left -= 1
    return rejected


@given(probabilities, st.floats(0.001, 0.5))
def test_holm_rejects_as_its_definition(p: list[float], alpha: float) -> None:
    assert [bool(q <= alpha) for q in holm(p)] == brute_force_holm(p, alpha)


@given(probabilities)
def test_the_ranked_list_is_benjamini_and_hochbergs(p: list[float]) -> None:
    np.testing.assert_allclose(benjamini_hochberg(p), stats.false_discovery_control(p), atol=1e-12)


def test_nothing_to_adjust_is_nothing() -> None:
    assert len(holm([])) == len(benjamini_hochberg([])) == 0


@given(st.integers(0, 40), st.integers(1, 40))
def test_clopper_pearson_ends_where_the_tails_are(count: int, of: int) -> None:
    count = min(count, of)
    low, high = clopper_pearson(count, of)
    if count:
        assert stats.binom.sf(count - 1, of, low) == pytest.approx(0.025)
    if count < of:
        assert stats.binom.cdf(count, of, high) == pytest.approx(0.025)


def test_zero_of_sixty_bounds_at_five_percent_one_sided() -> None:
    assert clopper_pearson(0, 60, 0.90)[1] == pytest.approx(1 - 0.05 ** (1 / 60))


def test_the_deviation_of_a_trial_is_that_of_simulated_ones() -> None:
    arm, pair, pairs, trials = 0.0025, 0.004, 21, 20_000
    generator = np.random.default_rng(1)
    offsets = generator.normal(0, arm, (trials, 2, 1))
    timings = offsets + generator.normal(0, pair, (trials, 2, pairs))
    found = np.std(np.median(timings[:, 1] - timings[:, 0], axis=1))
    # Relative standard error 1/sqrt(2 trials) = 0.5%; pi/2 holds of many pairs, 3% above what 21 give.
    assert found == pytest.approx(trial_deviation(arm, pair, pairs), rel=0.02)


@pytest.mark.parametrize("tests", [1, 10])
def test_the_detectable_effect_is_detected_with_its_power(tests: int) -> None:
    runs, trials, alpha = 4000, 10, 0.05
    effect = float(detectable_effect(DEVIATION, trials, tests, alpha, MARGIN))
    effects = hierarchical(runs, trials, math.inf, effect)
    found = int((moderate(effects).p_above(MARGIN) <= alpha / tests).sum())
    lowest, highest = stats.binom.ppf([RARE / 2, 1 - RARE / 2], runs, 0.9)
    assert lowest <= found <= highest


def test_the_bootstrap_knows_both_levels() -> None:
    """Its spread is that of the mean over trials: offsets of trials count, not pairs alone."""
    generator = np.random.default_rng(1)
    offsets = generator.normal(0, 0.01, 40)
    trials = [offset + generator.normal(0, 0.001, 20) for offset in offsets]
    low, high = bootstrap_interval(trials, 0.95, seed=1, resamples=4000)
    medians = [np.median(pairs) for pairs in trials]
    normal = 2 * 1.96 * np.std(medians, ddof=1) / math.sqrt(40)
    assert high - low == pytest.approx(normal, rel=0.1)
    assert low < np.mean(medians) < high


def test_the_bootstrap_of_one_trial_is_of_its_pairs() -> None:
    pairs = np.random.default_rng(1).normal(0, 0.01, 101)
    low, high = bootstrap_interval([pairs], 0.95, seed=1, resamples=4000)
    normal = 2 * 1.96 * 0.01 * math.sqrt(math.pi / 2 / 101)
    assert high - low == pytest.approx(normal, rel=0.35)  # rests on the density near the median
    assert low <= np.median(pairs) <= high


def test_the_bootstrap_takes_trials_of_unequal_pairs_and_repeats_by_seed() -> None:
    trials = [np.array([0.1, 0.1, 0.1]), np.array([0.3]), np.array([0.2, 0.2])]
    assert bootstrap_interval(trials, 0.9, 7) == bootstrap_interval(trials, 0.9, 7)
    assert bootstrap_interval([np.array([0.1])] * 3, 0.9, 7) == pytest.approx((0.1, 0.1))
    low, high = bootstrap_interval(trials, 0.999, 7)
    assert 0.1 <= low < 0.2 < high <= 0.3
