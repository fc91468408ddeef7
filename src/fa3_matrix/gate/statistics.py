"""What the gate computes: each formula with its source. Effects are natural logarithms of ratios.

Nothing here knows of documents or verdicts; distributions are scipy's, corrections statsmodels'.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats
from statsmodels.stats.multitest import multipletests

from fa3_matrix.gate.trials import FloatArray

# Below any timer's step, so that cells whose trials agree to the last digit have a variance whose logarithm exists.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class Prior:
    """What the cells together say of one cell's variance: ``variance``, worth ``df`` degrees of freedom.

    Cells of a common variance make ``df`` infinite; those of which none says anything of another, 0.
    """

    df: float
    variance: float


# Makes a moderated t the ordinary one.
NO_PRIOR = Prior(0.0, 0.0)


def fit_prior(variances: ArrayLike, df: int) -> Prior:
    """Fit the prior by the moments of the log variances, each of ``df`` degrees of freedom.

    Smyth (2004), "Linear models and empirical Bayes methods", section 6.2; limma's ``fitFDist``, whose floor of
    variances near zero and mean in the infinite case are kept. One cell alone makes a prior of no weight.
    """
    s2 = np.asarray(variances, dtype=np.float64)
    s2 = np.maximum(s2, max(1e-5 * float(np.median(s2)), _LEAST_VARIANCE))
    if len(s2) < 2:
        return Prior(0.0, float(s2[0]))
    half = df / 2
    e = np.log(s2) - special.digamma(half) + math.log(half)
    excess = float(np.var(e, ddof=1)) - float(special.polygamma(1, half))
    if excess <= 0:
        return Prior(math.inf, float(np.mean(s2)))
    half_prior = _trigamma_inverse(excess)
    log_variance = float(np.mean(e)) + float(special.digamma(half_prior)) - math.log(half_prior)
    return Prior(2 * half_prior, math.exp(log_variance))


def _trigamma_inverse(y: float) -> float:
    """The x whose trigamma is y. 1/x < trigamma(x) < 1/x + 1/x^2 brackets it."""
    low, high = 1 / y, (1 + math.sqrt(1 + 4 * y)) / (2 * y)
    return float(optimize.brentq(lambda x: float(special.polygamma(1, x)) - y, low, high))


@dataclass(frozen=True)
class ModeratedMeans:
    """Mean effect of each cell over trials, with a variance that leans on all cells (limma's moderated t)."""

    mean: FloatArray
    standard_error: FloatArray
    df: float
    prior: Prior

    def p_above(self, bound: ArrayLike) -> FloatArray:
        """One-sided p of each cell for H0: effect <= bound."""
        return np.asarray(stats.t.sf(self._t(bound), self.df), dtype=np.float64)

    def p_two_sided(self) -> FloatArray:
        """Two-sided p of each cell for H0: effect = 0."""
        return np.asarray(2 * stats.t.sf(np.abs(self._t(0.0)), self.df), dtype=np.float64)

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Two-sided interval of each effect, of coverage ``level`` a cell."""
        reach = float(stats.t.ppf((1 + level) / 2, self.df)) * self.standard_error
        return self.mean - reach, self.mean + reach

    def _t(self, bound: ArrayLike) -> FloatArray:
        return np.asarray((self.mean - np.asarray(bound)) / self.standard_error, dtype=np.float64)


def moderate(effects: ArrayLike, prior: Prior | None = None) -> ModeratedMeans:
    """Moderated means of ``effects``, an array (cells, trials); without ``prior`` it is fitted to them.

    Smyth (2004), section 4: the posterior variance is the mean of prior and sample variance, weighted by their
    degrees of freedom, which add up; as in limma's ``eBayes``, to no more than all cells have together.

    Raises:
        ValueError: fewer than two trials, or an effect that is not finite.
    """
    y = np.asarray(effects, dtype=np.float64)
    if y.ndim != 2 or y.shape[0] < 1 or y.shape[1] < 2:
        raise ValueError(
            f"effects of shape {y.shape}: need (cells, trials) with two trials or more"
        )
    if not np.isfinite(y).all():
        raise ValueError("an effect is not finite; leave out cells that lack a trial")
    cells, trials = y.shape
    df = trials - 1
    s2 = np.var(y, axis=1, ddof=1)
    prior = prior or fit_prior(s2, df)
    if math.isinf(prior.df):
        posterior = np.full(cells, prior.variance)
    else:
        posterior = (prior.df * prior.variance + df * s2) / (prior.df + df)
    posterior = np.maximum(posterior, _LEAST_VARIANCE)
    return ModeratedMeans(
        mean=np.asarray(y.mean(axis=1), dtype=np.float64),
        standard_error=np.asarray(np.sqrt(posterior / trials), dtype=np.float64),
        df=float(min(prior.df + df, cells * df)),
        prior=prior,
    )


def holm(p: ArrayLike) -> FloatArray:
    """Holm's (1979) adjusted p: rejecting those at most alpha keeps P(any false rejection) <= alpha."""
    return _adjusted(p, "holm")


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Adjusted p for a ranked list: of those at most q, a share of about q is false. Fails nothing."""
    return _adjusted(p, "fdr_bh")


def _adjusted(p: ArrayLike, method: str) -> FloatArray:
    p = np.asarray(p, dtype=np.float64)
    if p.size == 0:
        return p
    return np.asarray(multipletests(p, method=method)[1], dtype=np.float64)


def clopper_pearson(count: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval of a binomial share (Clopper & Pearson, 1934)."""
    interval = stats.binomtest(count, of).proportion_ci(level, method="exact")
    return float(interval.low), float(interval.high)


def trial_deviation(arm: float, pair: float, pairs: int) -> float:
    """Standard deviation of a trial's statistic: of arms that a process offsets by ``arm`` each, timed with ``pair``.

    sqrt(2 arm^2 + pi pair^2 / pairs): the median of n normals has pi/2 of the mean's variance, and a pair's ratio
    has twice the variance of one timing.
    """
    return math.sqrt(2 * arm**2 + math.pi * pair**2 / pairs)


def detectable_effect(
    deviation: ArrayLike,
    trials: int,
    tests: int,
    alpha: float,
    margin: ArrayLike,
    power: float = 0.9,
) -> FloatArray:
    """The effect that one of ``tests`` shows with ``power``.

    margin + (z[alpha / tests] + z[1 - power]) deviation / sqrt(trials): for normal trials of a known ``deviation``,
    and Holm's first, hardest step.
    """
    z = float(stats.norm.isf(alpha / tests) + stats.norm.isf(1 - power))
    return np.asarray(margin) + z * np.asarray(deviation, dtype=np.float64) / math.sqrt(trials)


def bootstrap_interval(
    trials: Sequence[FloatArray], level: float, seed: int, resamples: int = 1000
) -> tuple[float, float]:
    """Percentile interval of the mean over trials of the median over pairs: trials are drawn again, then their pairs.

    Each of ``trials`` holds its kept pairs' log ratios, one or more. For the report, beside the moderated interval;
    of few trials it is too narrow (it knows no t), so no verdict rests on it.
    """
    generator = np.random.default_rng(seed)
    counts = np.array([len(pairs) for pairs in trials])
    padded = np.full((len(trials), int(counts.max())), np.nan)
    for row, pairs in zip(padded, trials, strict=True):
        row[: len(pairs)] = pairs
    chosen = generator.integers(len(trials), size=(resamples, len(trials)))
    drawn = np.empty((resamples, len(trials)))
    for count in np.unique(
        counts
    ):  # trials of as many pairs together: 10 times faster than NaN-aware medians
        at = np.nonzero(counts[chosen] == count)
        picks = generator.integers(count, size=(len(at[0]), int(count)))
        drawn[at] = np.median(padded[chosen[at][:, None], picks], axis=1)
    low, high = np.quantile(drawn.mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
