// The certificate's own loops: an error in a solver's kernel cannot hide in its proof.
//
// All they share with solvers are arrays and vectors of numbers. Sums that must be exact are kept as two numbers, the
// rounded value and what rounding lost; they rely on every operation being rounded as it is written.
//
// Legend: row (s - base)*A + a of a block of sparse rows P is P(. | s, a); `r` (S*A,) a reward table and `size` (S*A,) what its
// rounding is relative to, whatever the sign; `active` (S*A,) the pairs that count; `gamma` the discount; `v` (S,)
// multipliers; `pi` (S*A,) a policy, `x` (S,) its state occupancy, `xi` (S,) the start.
#pragma once
#include "binding.hpp"
#include "vec.hpp"

#if defined(__FAST_MATH__) || __FLT_EVAL_METHOD__ != 0
#error "the certificate needs every operation rounded to its own type, as it is written"
#endif

namespace cautious::certificate {

// a b as a rounded product and its error.
inline double two_product(double a, double b, double& error) {
    double product = a * b;
    error = std::fma(a, b, -product);
    return product;
}

// a + b as a rounded sum and its error (Knuth); of numbers or of vectors of numbers.
template <class V>
[[gnu::always_inline]] inline V two_sum(V a, V b, V& error) {
    V sum = a + b, moved = sum - a;
    error = (a - (sum - moved)) + (b - moved);
    return sum;
}

// The mean of v over a row, and of |v|.
template <class I>
std::tuple<double, double> mean_and_magnitude(const Rows<I>& p, In<double> v, i64 row) {
    double total = 0.0, magnitude = 0.0;
    for (i64 k = p.first(row); k < p.last(row); ++k) {
        double part = p.data[k] * v[p.indices[k]];
        total += part;
        magnitude += std::abs(part);
    }
    return {total, magnitude};
}

// The largest r + gamma E[v] - v over the active pairs of a block, each raised by what rounding can hide; NaN if one is not
// finite. `unit` is the rounding of one operation; a row of k successors takes about k + 8 of them.
template <class I>
double largest_advantage(Block<I> block, In<double> r, In<double> size, In<bool> active, double gamma, In<double> v,
                         double unit) {
    i64 n_actions = evenly(r.size, v.size);
    REQUIRE(block.fits(v.size, n_actions) && size.size == r.size && active.size == r.size);
    const Rows<I>& p = block.rows;
    double worst = -INFINITE;
    for (i64 s = block.base, row = 0; s < block.end(n_actions); ++s) {
        for (i64 pair = s * n_actions; pair < (s + 1) * n_actions; ++pair, ++row) {
            if (!active[pair]) continue;
            auto [mean, magnitude] = mean_and_magnitude(p, v, row);
            double operations = static_cast<double>(p.length(row)) + 8.0;
            double noise = unit * operations * (std::abs(size[pair]) + gamma * magnitude + std::abs(v[s]));
            double advantage = r[pair] + gamma * mean - v[s] + noise;
            if (!std::isfinite(advantage)) return NOT_A_NUMBER;
            worst = std::max(worst, advantage);
        }
    }
    return worst;
}

// The largest r + E[v] - v over the active pairs as r + E[v - v(s)], each raised by what rounding can hide: a pair that
// pays nothing and leads to states with the very same multiplier is exactly zero. NaN if one is not finite.
template <class I>
double largest_rise(Rows<I> p, In<double> r, In<double> size, In<bool> active, In<double> v, double unit) {
    i64 n_actions = evenly(r.size, v.size);
    REQUIRE(n_actions > 0 && r.size == p.count() && size.size == r.size && active.size == r.size);
    double worst = -INFINITE;
    for (i64 s = 0, row = 0; s < v.size; ++s) {
        for (i64 a = 0; a < n_actions; ++a, ++row) {
            if (!active[row]) continue;
            double total = 0.0, magnitude = 0.0;
            for (i64 k = p.first(row); k < p.last(row); ++k) {
                double part = p.data[k] * (v[p.indices[k]] - v[s]);
                total += part;
                magnitude += std::abs(part);
            }
            double operations = static_cast<double>(p.length(row)) + 8.0;
            double noise = unit * operations * (std::abs(size[row]) + magnitude);
            // products below the smallest normal number lose their digits
            if (magnitude > 0.0) noise += operations * std::numeric_limits<double>::min();
            double advantage = r[row] + total + noise;
            if (!std::isfinite(advantage)) return NOT_A_NUMBER;
            worst = std::max(worst, advantage);
        }
    }
    return worst;
}

// A sum in twice the working precision: its rounded value, and what rounding lost.
struct Twofold {
    double value = 0.0, lost = 0.0;

    void add(double x) {
        double error;
        value = two_sum(value, x, error);
        lost += error;
    }
    void add_product(double a, double b) {
        double error, product = two_product(a, b, error);
        add(product);
        lost += error;
    }
    double total() const { return value + lost; }
};

// r + gamma E[v + rest] of a row in twice the working precision, with chances that sum to one exactly. `doubt` grows by
// what is still unknown: the rounding of the lost parts, and that of the stored chances, each of which may be off what
// was given; what all of them are off together is known from their sum.
template <class I>
Twofold exact_worth(const Rows<I>& p, i64 row, double r, double gamma, In<double> v, In<double> rest, double unit,
                    double& doubt) {
    Twofold mean, chance, worth;
    double magnitude = std::abs(r), small = 0.0, operations = static_cast<double>(p.length(row)) + 8.0;
    for (i64 k = p.first(row); k < p.last(row); ++k) {
        double often = p.data[k], given = rest[p.indices[k]];
        mean.add_product(often, v[p.indices[k]]);
        mean.lost += often * given;
        chance.add(often);
        magnitude += std::abs(often * v[p.indices[k]]);
        small += std::abs(often * given);
    }
    chance.add(-1.0);
    double middle = mean.total(), excess = chance.total() * middle, apart = 0.0;
    mean.lost -= excess;
    worth.add_product(gamma, mean.value);
    worth.lost += gamma * mean.lost;
    worth.add(r);
    for (i64 k = p.first(row); k < p.last(row); ++k) apart += p.data[k] * std::abs(v[p.indices[k]] - middle);
    doubt += unit * operations * (unit * operations * magnitude + small + std::abs(excess));
    doubt += unit * apart;
    return worth;
}

// out = r + gamma E[v + rest] - (v + rest) of the active pairs of a block, minus infinity in its other pairs, in twice the working
// precision; the largest, raised by what is not known, NaN if one is not finite. `doubt` (S*A,) times `share` is what
// is not known of r.
template <class I>
double exact_advantages(Block<I> block, In<double> r, In<double> doubt, double share, In<bool> active, double gamma,
                        In<double> v, In<double> rest, double unit, Out<double> out) {
    i64 n_actions = evenly(r.size, v.size);
    REQUIRE(block.fits(v.size, n_actions) && doubt.size == r.size && active.size == r.size);
    REQUIRE(rest.size == v.size && out.size == r.size);
    double worst = -INFINITE;
    for (i64 s = block.base, row = 0; s < block.end(n_actions); ++s) {
        for (i64 pair = s * n_actions; pair < (s + 1) * n_actions; ++pair, ++row) {
            out[pair] = -INFINITE;
            if (!active[pair]) continue;
            double unknown = share * std::abs(doubt[pair]);
            Twofold advantage = exact_worth(block.rows, row, r[pair], gamma, v, rest, unit, unknown);
            advantage.add(-v[s]);
            advantage.add(-rest[s]);
            out[pair] = advantage.total();
            if (!std::isfinite(out[pair])) return NOT_A_NUMBER;
            worst = std::max(worst, out[pair] + unknown + 2 * unit * std::abs(out[pair]));
        }
    }
    return worst;
}

// out = r_pi + gamma E_pi[v + rest] - (v + rest) of a policy in the `counted` states of a block, 0 in the others, twice the
// working precision, with a row of the policy that sums to one exactly; the least and the largest, moved outwards by
// what is not known. NaN if one is, or if the policy leaves the active pairs there.
template <class I>
std::tuple<double, double> exact_policy_advantages(Block<I> block, In<double> r, In<double> doubt, double share,
                                                   In<double> pi, In<bool> active,
                                                   In<bool> counted, double gamma, In<double> v, In<double> rest,
                                                   double unit, Out<double> out) {
    i64 n_actions = evenly(r.size, v.size);
    REQUIRE(block.fits(v.size, n_actions) && pi.size == r.size && active.size == r.size);
    REQUIRE(doubt.size == r.size);
    REQUIRE(counted.size == v.size && rest.size == v.size && out.size == v.size);
    double least = INFINITE, largest = -INFINITE;
    for (i64 s = block.base, row = 0; s < block.end(n_actions); ++s, row += n_actions) {
        out[s] = 0.0;
        if (!counted[s]) continue;
        Twofold mean, chance;
        double unknown = 0.0, magnitude = 0.0, operations = 8.0 + static_cast<double>(n_actions);
        for (i64 a = 0, pair = s * n_actions; a < n_actions; ++a, ++pair) {
            if (!(pi[pair] > 0.0)) continue;
            if (!active[pair]) return {NOT_A_NUMBER, NOT_A_NUMBER};
            double not_known = share * std::abs(doubt[pair]);
            Twofold worth = exact_worth(block.rows, row + a, r[pair], gamma, v, rest, unit, not_known);
            mean.add_product(pi[pair], worth.value);
            mean.lost += pi[pair] * worth.lost;
            chance.add(pi[pair]);
            magnitude += std::abs(pi[pair] * worth.value);
            unknown += pi[pair] * not_known;
        }
        chance.add(-1.0);
        double excess = chance.total() * mean.total();
        unknown += unit * operations * (unit * operations * magnitude + std::abs(excess));
        mean.lost -= excess;
        mean.add(-v[s]);
        mean.add(-rest[s]);
        out[s] = mean.total();
        if (!std::isfinite(out[s])) return {NOT_A_NUMBER, NOT_A_NUMBER};
        unknown += 2 * unit * std::abs(out[s]);
        least = std::min(least, out[s] - unknown);
        largest = std::max(largest, out[s] + unknown);
    }
    return {least, largest};
}

// The least and the largest  r_pi + gamma E_pi[v] - v  of a policy over the `counted` states of a block, moved outwards
// by what rounding can hide. NaN if one is, or if the policy leaves the active pairs there.
template <class I>
std::tuple<double, double> policy_advantages(Block<I> block, In<double> r, In<double> pi, In<bool> active,
                                             In<bool> counted, double gamma, In<double> v, double unit) {
    i64 n_actions = evenly(r.size, v.size);
    REQUIRE(block.fits(v.size, n_actions) && pi.size == r.size && active.size == r.size);
    REQUIRE(counted.size == v.size);
    double least = INFINITE, largest = -INFINITE;
    for (i64 s = block.base, row = 0; s < block.end(n_actions); ++s, row += n_actions) {
        if (!counted[s]) continue;
        double total = 0.0, magnitude = 0.0, operations = 8.0 + static_cast<double>(n_actions);
        for (i64 a = 0, pair = s * n_actions; a < n_actions; ++a, ++pair) {
            if (!(pi[pair] > 0.0)) continue;
            if (!active[pair]) return {NOT_A_NUMBER, NOT_A_NUMBER};
            auto [mean, size] = mean_and_magnitude(block.rows, v, row + a);
            total += pi[pair] * (r[pair] + gamma * mean);
            magnitude += pi[pair] * (std::abs(r[pair]) + gamma * size);
            operations += static_cast<double>(block.rows.length(row + a));
        }
        double noise = unit * operations * (magnitude + std::abs(v[s]));
        double low = total - v[s] - noise, high = total - v[s] + noise;
        if (std::isnan(low)) return {NOT_A_NUMBER, NOT_A_NUMBER};
        least = std::min(least, low);
        largest = std::max(largest, high);
    }
    return {least, largest};
}

// The largest distance from one of the sum of chances of an active pair, in twice the working precision.
template <class I>
double largest_sum_error(Rows<I> p, In<bool> active) {
    REQUIRE(active.size == p.count());
    double worst = 0.0;
    for (i64 row = 0; row < active.size; ++row) {
        if (!active[row]) continue;
        Twofold sum;
        for (i64 k = p.first(row); k < p.last(row); ++k) sum.add(p.data[k]);
        sum.add(-1.0);
        worst = std::max(worst, std::abs(sum.total()));
    }
    return worst;
}

// (<x, y>, <|x|, |y|>); the first is summed with compensation, so that only the products round, however many.
inline std::tuple<double, double> compensated_dot(In<double> x, In<double> y) {
    REQUIRE(x.size == y.size);
    // eight sums at a time, because one would wait for itself; as many on every processor, so that all agree
    using Eight = Vec<8>;
    Eight total = Eight::all(0.0), lost = total, size = total, error;
    i64 even = x.size - x.size % 8;
    for (i64 i = 0; i < even; i += 8) {
        Eight part = Eight::load(x.data + i) * Eight::load(y.data + i);
        size = size + absolute(part);
        total = two_sum(total, part, error);
        lost = lost + error;
    }
    double sums[8], whole = 0.0, rest = 0.0, magnitude = 0.0, missed;
    total.store(sums);
    for (int i = 0; i < 8; ++i) {
        rest += lost[i];
        magnitude += size[i];
    }
    for (double sum : sums) {
        whole = two_sum(whole, sum, missed);
        rest += missed;
    }
    for (i64 i = even; i < x.size; ++i) {
        double part = x[i] * y[i];
        magnitude += std::abs(part);
        whole = two_sum(whole, part, missed);
        rest += missed;
    }
    return {whole + rest, magnitude};
}

// r -= price slope, size += |price slope|, in place; the largest |slope| of an active pair, NaN if one is NaN.
inline double subtract_slope(In<double> slope, double price, In<bool> active, Out<double> r, Out<double> size) {
    REQUIRE(slope.size == r.size && active.size == r.size && size.size == r.size);
    double largest = 0.0;
    for (i64 row = 0; row < r.size; ++row) {
        double steep = slope[row], part = price * steep;
        r[row] -= part;
        size[row] += std::abs(part);
        if (!active[row] || std::abs(steep) <= largest) continue;
        largest = std::abs(steep);
        if (std::isnan(largest)) return largest;
    }
    return largest;
}

// The largest |r| of the pairs that a policy takes in the `reached` states (S,); 0 without any.
inline double largest_reward_taken(In<double> r, In<double> pi, In<bool> reached) {
    i64 n_actions = evenly(r.size, reached.size);
    REQUIRE(n_actions > 0 && pi.size == r.size);
    double largest = 0.0;
    for (i64 s = 0; s < reached.size; ++s) {
        if (!reached[s]) continue;
        for (i64 row = s * n_actions; row < (s + 1) * n_actions; ++row)
            if (pi[row] > 0.0) largest = std::max(largest, std::abs(r[row]));
    }
    return largest;
}

// inflow (S, 2) += P_pi' x from the states of a block in twice the working precision: what flows into a state, and what
// rounding lost of it.
template <class I>
Done add_inflow(Block<I> block, In<double> pi, In<double> x, Out<double> inflow) {
    i64 n_actions = evenly(pi.size, x.size);
    REQUIRE(block.fits(x.size, n_actions) && inflow.size == 2 * x.size);
    const Rows<I>& p = block.rows;
    for (i64 s = block.base, row = 0; s < block.end(n_actions); ++s, row += n_actions) {
        if (x[s] == 0.0) continue;
        for (i64 a = 0; a < n_actions; ++a) {
            double share = pi[s * n_actions + a];
            if (!(share > 0.0)) continue;
            double mass_lost, mass = two_product(share, x[s], mass_lost);
#pragma GCC unroll 4
            for (i64 k = p.first(row + a), last = p.last(row + a); k < last; ++k) {
                double* to = inflow.data + 2 * static_cast<i64>(p.indices[k]);
                double carried_lost, sum_lost, carried = two_product(mass, p.data[k], carried_lost);
                to[0] = two_sum(to[0], carried, sum_lost);
                to[1] += sum_lost + std::fma(mass_lost, p.data[k], carried_lost);
            }
        }
    }
    return {};
}

// out = (1 - gamma) xi + gamma P_pi' x - x, (S,), given all inflow (S, 2), in twice the working precision and rounded
// once at its end; its 1-norm. An error bound rests on it.
inline double flow_balance(In<double> inflow, In<double> x, In<double> xi, double gamma, Out<double> out) {
    REQUIRE(xi.size == x.size && out.size == x.size && inflow.size == 2 * x.size);
    double norm = 0.0;
    for (i64 s = 0; s < x.size; ++s) {
        double rest, faded_rest, lost;
        double total = two_product(gamma, inflow[2 * s], rest), faded = two_product(gamma, xi[s], faded_rest);
        rest += gamma * inflow[2 * s + 1] - faded_rest;
        for (double term : {-faded, xi[s], -x[s]}) {
            total = two_sum(total, term, lost);
            rest += lost;
        }
        out[s] = total + rest;
        norm += std::abs(out[s]);
    }
    return norm;
}

// out = pi(a | s) x(s) / total, (S*A,).
inline Done pair_occupancy(In<double> pi, In<double> x, double total, Out<double> out) {
    i64 n_actions = evenly(pi.size, x.size);
    REQUIRE(n_actions > 0 && out.size == pi.size);
    for (i64 s = 0, row = 0; s < x.size; ++s) {
        double share = x[s] / total;
        for (i64 a = 0; a < n_actions; ++a, ++row) out[row] = pi[row] * share;
    }
    return {};
}

inline const Kernel kernels[] = {
    kernel<largest_advantage<i32>, largest_advantage<i64>>(
        "largest_advantage", "base indptr indices data r size active gamma v unit",
        "The largest r + gamma E[v] - v over the active pairs, raised by what rounding can hide; NaN if not finite."),
    kernel<largest_rise<i32>, largest_rise<i64>>(
        "largest_rise", "indptr indices data r size active v unit",
        "The largest r + E[v] - v over the active pairs, by differences of v, raised by what rounding can hide."),
    kernel<policy_advantages<i32>, policy_advantages<i64>>(
        "policy_advantages", "base indptr indices data r pi active counted gamma v unit",
        "Least and largest r_pi + gamma E_pi[v] - v of a policy over the counted states, moved outwards."),
    kernel<exact_advantages<i32>, exact_advantages<i64>>(
        "exact_advantages", "base indptr indices data r doubt share active gamma v rest unit out",
        "out = r + gamma E[v + rest] - (v + rest) in twice the working precision; the largest, raised by what is not known."),
    kernel<exact_policy_advantages<i32>, exact_policy_advantages<i64>>(
        "exact_policy_advantages", "base indptr indices data r doubt share pi active counted gamma v rest unit out",
        "The same of a policy, averaged over its actions; the least and the largest, moved outwards."),
    kernel<largest_sum_error<i32>, largest_sum_error<i64>>(
        "largest_sum_error", "indptr indices data active",
        "The largest distance from one of the sum of chances of an active pair, in twice the working precision."),
    kernel<compensated_dot>("compensated_dot", "x y", "(<x, y>, <|x|, |y|>), the first summed with compensation."),
    kernel<subtract_slope>("subtract_slope", "slope price active r size",
                           "r -= price slope, size += |price slope|; the largest |slope| of an active pair."),
    kernel<largest_reward_taken>("largest_reward_taken", "r pi reached",
                                 "The largest |r| of the pairs that a policy takes in the reached states."),
    kernel<add_inflow<i32>, add_inflow<i64>>(
        "add_inflow", "base indptr indices data pi x inflow",
        "inflow (S, 2) += P_pi' x from the states of a block, in twice the working precision."),
    kernel<flow_balance>("flow_balance", "inflow x xi gamma out",
                         "out = (1 - gamma) xi + gamma P_pi' x - x, given all inflow; its 1-norm."),
    kernel<pair_occupancy>("pair_occupancy", "pi x total out", "out = pi(a | s) x(s) / total, (S*A,)."),
};

inline const Subject listed =
    subject("certificate", "The certificate's own loops: bounds that include rounding, and exact sums.",
            kernels);

}  // namespace cautious::certificate
