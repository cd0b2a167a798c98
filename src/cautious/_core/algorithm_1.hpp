// Algorithm 1 as printed, on the tables of a known model: every sample updates every pair.
//
// Legend, with S states, n = S*A pairs and pair i = s*A + a:
//
//     steps, seed                how many iterations, and the stream: draw t uses its numbers 3t, 3t+1, 3t+2 for the
//                                pair, the start state and the successor
//     sums                       indptr, indices, cumulative: sparse rows P(. | s, a) with running sums per row
//     rewards, per_outcome       a reward per stored outcome, or per pair
//     xi (S,), allowed (n,)      running sums of the start distribution; which pairs exist
//     low, width                 a reward r counts as (r - low) / width
//     gamma, alpha, beta         discount, steps of v and lam
//     m1, m2                     the shifts of Theorem 1
//     delta, zeta                zeta = (1-delta) d + delta/pairs is the law that picks what to simulate
//     box                        bound of the multipliers (Lemma 1)
//     kinds, on_states, weights  the terms of the risk: what each is, whether it is one of state sums, and its weight,
//                                which is c times (1-gamma): slopes are in lam
//     first, rows, numbers       term k has the rows first[k] to first[k + 1] of the tables rows (m, n), which are the
//                                prior of a distance or the features of the other kinds, and numbers (m, 2), which are
//                                floor or target and smallest slack
//     floor                      below it divergences go on as straight lines
//     log_lam (n,), v (S,)       log of the flux lam, mass 1/(1-gamma), -inf for pairs that do not exist; multipliers
//     d_sum (n,), v_sum (S,)     sums over the iterations of d = (1-gamma) lam and of v
//     moments (3, n)             of the scaled rewards: draws, sum and sum of squares
//     slope (n,), mass (S,)      subgradient of the weighted risk; sums of d over the pairs of each state
#pragma once
#include "sampling.hpp"

namespace cautious::algorithm_1 {

using namespace sampling;

struct TermKind {
    enum : i64 { ENTROPIC, HALF_L1, HALF_SQUARES, WORST, BARRIER, SQUARE_OF, COUNT };
};

// a common scale of fluxes is renewed before their sum leaves this range
inline constexpr double MIN_TOTAL = 1e-50;
// steps times pairs in one call, which cannot be interrupted
inline constexpr i64 MAX_WORK = i64{1} << 28;

struct RiskTerms {
    In<i64> kinds;
    In<bool> on_states;
    In<double> weights;
    In<i64> first;
    Matrix<const double> rows, numbers;
    double floor;

    // Whether every term has rows of n numbers within the tables.
    bool fits(i64 n) const {
        bool sizes = on_states.size == kinds.size && weights.size == kinds.size && first.size == kinds.size + 1;
        bool tables = rows.columns == n && numbers.columns == 2 && numbers.rows == rows.rows;
        if (!sizes || !tables || first[0] < 0) return false;
        for (i64 k = 0; k < kinds.size; ++k) {
            if (kinds[k] < 0 || kinds[k] >= TermKind::COUNT) return false;
            if (first[k] >= first[k + 1] || first[k + 1] > rows.rows) return false;
        }
        return true;
    }
};

// Sums in order: runs that are repeated must round alike at every CPU level.
inline double sum_in_order(In<double> x) {
    double total = 0.0;
    for (double entry : x) total += entry;
    return total;
}

inline double dot_in_order(In<double> x, In<double> y) {
    double total = 0.0;
    for (i64 i = 0; i < x.size; ++i) total += x[i] * y[i];
    return total;
}

// Adds weight times the slope of a distance to a prior p, on pairs or on states; entry(x, p) is one derivative.
template <class F>
void add_entries(bool on_states, double weight, In<double> p, In<double> d, In<double> mass, Out<double> slope,
                 F entry) {
    if (!on_states) {
        for (i64 i = 0; i < d.size; ++i) slope[i] += weight * entry(d[i], p[i]);
        return;
    }
    i64 n_actions = d.size / mass.size;
    for (i64 s = 0, i = 0; s < mass.size; ++s) {
        double g = weight * entry(mass[s], p[s]);
        for (i64 a = 0; a < n_actions; ++a, ++i) slope[i] += g;
    }
}

// Term k, a distance to a prior; for entropies the table holds the logarithm of the prior.
inline void add_distance(const RiskTerms& risk, i64 k, In<double> d, In<double> mass, Out<double> slope) {
    bool on_states = risk.on_states[k];
    double weight = risk.weights[k], floor = risk.floor;
    In<double> p = risk.rows.row(risk.first[k]);
    if (risk.kinds[k] == TermKind::ENTROPIC)
        add_entries(on_states, weight, p, d, mass, slope,
                    [=](double x, double log_p) { return 1.0 + std::log(std::max(x, floor)) - log_p; });
    else if (risk.kinds[k] == TermKind::HALF_L1)
        add_entries(on_states, weight, p, d, mass, slope,
                    [](double x, double mu) { return x > mu ? 0.5 : x < mu ? -0.5 : 0.0; });
    else
        add_entries(on_states, weight, p, d, mass, slope, [](double x, double mu) { return x - mu; });
}

// Term k, a risk of several linear numbers <row j, d>.
inline void add_features(const RiskTerms& risk, i64 k, In<double> d, Out<double> slope) {
    double weight = risk.weights[k], largest = -INFINITE;
    i64 best = risk.first[k];
    for (i64 j = risk.first[k]; j < risk.first[k + 1]; ++j) {
        double y = dot_in_order(risk.rows.row(j), d);
        if (risk.kinds[k] == TermKind::WORST) {
            if (y > largest) best = j, largest = y;
            continue;
        }
        double gap = y - risk.numbers(j, 0);
        bool square = risk.kinds[k] == TermKind::SQUARE_OF;
        add_multiple(slope, weight * (square ? gap : -1.0 / std::max(gap, risk.numbers(j, 1))), risk.rows.row(j));
    }
    if (risk.kinds[k] == TermKind::WORST) add_multiple(slope, weight, risk.rows.row(best));
}

// Overwrites `slope` by the weighted sum over the terms; `mass` is scratch.
inline void risk_slope(const RiskTerms& risk, In<double> d, Out<double> mass, Out<double> slope) {
    slope.fill(0.0);
    i64 n_actions = d.size / mass.size;
    if (any_of(risk.on_states))
        for (i64 s = 0; s < mass.size; ++s) mass[s] = sum_in_order(d.part(s * n_actions, (s + 1) * n_actions));
    for (i64 k = 0; k < risk.kinds.size; ++k) {
        if (risk.kinds[k] <= TermKind::HALF_SQUARES)
            add_distance(risk, k, d, mass, slope);
        else
            add_features(risk, k, d, slope);
    }
}

// Gives lam its mass 1/(1-gamma) again, by a fresh sum, and overwrites d by (1-gamma) lam.
inline void normalise_flux(Out<double> log_lam, double gamma, Out<double> d) {
    double top = log_lam[0], total = 0.0;
    for (double entry : log_lam) top = std::max(top, entry);
    for (i64 i = 0; i < d.size; ++i) {
        d[i] = std::exp(log_lam[i] - top);
        total += d[i];
    }
    double shift = top + std::log(total * (1.0 - gamma));
    by_lanes(0, d.size, [=]<class V>(V, i64 i) {
        (V::load(d.data + i) / V::all(total)).store(d.data + i);
        (V::load(log_lam.data + i) - V::all(shift)).store(log_lam.data + i);
    });
}

// The pair that a uniform number selects from zeta; pairs that do not exist are never selected.
inline i64 pick_pair(In<double> d, In<bool> allowed, double delta, double share, double u) {
    double total = 0.0;
    i64 last = 0;
    for (i64 i = 0; i < d.size; ++i) {
        if (!allowed[i]) continue;
        total += (1.0 - delta) * d[i] + share;
        last = i;
        if (total > u) return i;
    }
    return last;
}

// d = weight / total, which is added to its sum.
inline void add_occupancy(In<double> weight, double total, Out<double> d, Out<double> d_sum) {
    by_lanes(0, d.size, [=]<class V>(V, i64 i) {
        V share = V::load(weight.data + i) / V::all(total);
        share.store(d.data + i);
        (V::load(d_sum.data + i) + share).store(d_sum.data + i);
    });
}

// log_lam -= beta (slope + m2).
inline void descend(Out<double> log_lam, double beta, In<double> slope, double m2) {
    by_lanes(0, log_lam.size, [=]<class V>(V, i64 i) {
        V step = V::all(beta) * (V::load(slope.data + i) + V::all(m2));
        (V::load(log_lam.data + i) - step).store(log_lam.data + i);
    });
}

// `steps` iterations, in place on log_lam, v, d_sum, v_sum and moments. Without a risk one logarithm changes per step
// (m2 shifts all of them alike), so only one exponential is taken: the others stay in `weight`, on a common scale that
// is renewed before it can run out; their sum is always a fresh one.
template <class I>
Done run_algorithm_1(i64 steps, u64 seed, Rows<I> sums, In<double> rewards, bool per_outcome, In<double> xi,
                     In<bool> allowed, double low, double width, double gamma, double alpha, double beta, double m1,
                     double m2, double delta, double box, In<i64> kinds, In<bool> on_states, In<double> weights,
                     In<i64> first, Matrix<const double> rows, Matrix<const double> numbers, double floor,
                     Out<double> log_lam, Out<double> v, Out<double> d_sum, Out<double> v_sum, Matrix<double> moments) {
    RiskTerms risk{kinds, on_states, weights, first, rows, numbers, floor};
    i64 n = log_lam.size, n_actions = evenly(n, v.size), n_pairs = std::count(allowed.begin(), allowed.end(), true);
    REQUIRE(n_actions > 0 && n_pairs > 0 && sums.count() == n && allowed.size == n && xi.size == v.size);
    REQUIRE(rewards.size == (per_outcome ? sums.data.size : n) && d_sum.size == n && v_sum.size == v.size);
    REQUIRE(moments.rows == 3 && moments.columns == n && risk.fits(n));
    REQUIRE(steps >= 0 && steps <= std::max<i64>(1, MAX_WORK / n));
    for (i64 i = 0; i < n; ++i) REQUIRE(!allowed[i] || sums.length(i) > 0);
    Buffer<double> d(n), weight(n), slope(n), mass(v.size);
    REQUIRE_MEMORY(d, weight, slope, mass);
    double share = delta / static_cast<double>(n_pairs);
    bool neutral = kinds.size == 0;
    normalise_flux(log_lam, gamma, weight);
    for (i64 t = 0; t < steps; ++t) {
        double total = sum_in_order(weight);
        if (!(neutral && total > MIN_TOTAL && total < 1.0 / MIN_TOTAL)) {
            normalise_flux(log_lam, gamma, weight);
            total = 1.0;
        }
        add_occupancy(weight, total, d, d_sum);
        add_multiple(v_sum, 1.0, v);
        if (!neutral) risk_slope(risk, d, mass, slope);
        u64 counter = 3 * static_cast<u64>(t);
        i64 i = pick_pair(d, allowed, delta, share, uniform(seed, counter));
        i64 s_bar = first_above(xi.data, 0, xi.size - 1, uniform(seed, counter + 1) * xi[xi.size - 1]);
        i64 k = select_entry(sums, i, uniform(seed, counter + 2)), s = i / n_actions, s_next = sums.indices[k];
        double r_hat = (rewards[per_outcome ? k : i] - low) / width;
        moments(0, i) += 1.0;
        moments(1, i) += r_hat;
        moments(2, i) += r_hat * r_hat;
        double zeta = (1.0 - delta) * d[i] + share, ratio = d[i] / ((1.0 - gamma) * zeta);
        double sampled = (r_hat + gamma * v[s_next] - v[s] - m1) / zeta;
        v[s_bar] -= alpha;
        v[s_next] -= alpha * ratio * gamma;
        v[s] += alpha * ratio;
        for (i64 j : {s_bar, s_next, s}) v[j] = std::min(std::max(v[j], -box), box);
        if (!neutral) descend(log_lam, beta, slope, m2);
        log_lam[i] += beta * sampled;
        weight[i] = (1.0 - gamma) * std::exp(log_lam[i]);
    }
    normalise_flux(log_lam, gamma, weight);
    return {};
}

inline const Kernel kernels[] = {
    kernel<run_algorithm_1<i32>, run_algorithm_1<i64>>(
        "run",
        "steps seed indptr indices cumulative rewards per_outcome xi allowed low width gamma alpha beta m1 m2 delta "
        "box kinds on_states weights first rows numbers floor log_lam v d_sum v_sum moments",
        "Iterations of Algorithm 1, in place on log_lam, v, d_sum, v_sum and moments."),
};

inline constexpr Constant constants[] = {
    {"ENTROPIC", TermKind::ENTROPIC}, {"HALF_L1", TermKind::HALF_L1}, {"HALF_SQUARES", TermKind::HALF_SQUARES},
    {"WORST", TermKind::WORST},       {"BARRIER", TermKind::BARRIER}, {"SQUARE_OF", TermKind::SQUARE_OF},
};

inline const Subject listed =
    subject("algorithm_1", "Algorithm 1 as printed, on the tables of a known model.",
            kernels, constants);

}  // namespace cautious::algorithm_1
