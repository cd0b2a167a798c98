// Distributions nearest to given numbers, and a step of all states at once towards what pays better.
//
// Legend: row s*A + a of the sparse rows P is P(. | s, a); `r` (S*A,) a reward table; `active` (S*A,) the pairs that
// count; `gamma` the discount; `v` (S,) multipliers; `d` (S*A,) an occupancy; `h` how much less a pair pays for a unit
// more of its mass.
#pragma once
#include "flow.hpp"

namespace cautious::simplex {

using namespace flow;

// largest step of a pair, so that sums of steps stay finite
inline constexpr double MAX_STEP = 1e100;

// The number that the entries above it exceed by `mass` together; -inf takes no part, and without others is the result.
// Entries below the threshold drop out, which raises it, until none does (Michelot): mostly a few passes, no sorting.
inline double simplex_threshold(In<double> x, double mass) {
    double found = -INFINITE;
    for (i64 kept = x.size + 1;;) {
        double total = 0.0;
        i64 count = 0;
#pragma GCC unroll 4
        for (double entry : x) {
            if (!(entry > found)) continue;
            total += entry;
            ++count;
        }
        // rounding may lower the threshold and let entries back in: whoever dropped out stays out
        if (count == 0 || count >= kept) return found;
        kept = count;
        found = (total - mass) / static_cast<double>(count);
    }
}

// shares = the distribution of `mass` nearest to `wanted`, divided by its sum; -inf takes no part.
inline void nearest_shares(In<double> wanted, double mass, double* shares) {
    double least = simplex_threshold(wanted, mass), total = 0.0;
    for (i64 a = 0; a < wanted.size; ++a) {
        shares[a] = std::max(wanted[a] - least, 0.0);
        total += shares[a];
    }
    // without mass, or where it is lost beside large numbers, nothing is above the threshold: the best takes all
    if (!(total > 0.0)) {
        i64 best = std::max_element(wanted.begin(), wanted.end()) - wanted.begin();
        for (i64 a = 0; a < wanted.size; ++a) shares[a] = a == best && wanted[a] > -INFINITE ? 1.0 : 0.0;
        return;
    }
    for (i64 a = 0; a < wanted.size; ++a) shares[a] /= total;
}

// policy (S*A,): every state's mass as it would be spread if only its own pairs paid less for more. That is the
// distribution of mass x(s) nearest to d + (r + gamma E[v] - v) / h, a projected gradient step. States without mass
// take their best paid pair; those without active pairs get zeros.
template <class I>
Done projected_step(Rows<I> p, In<double> r, In<bool> active, double gamma, In<double> v, In<double> d, double h,
                    Out<double> policy) {
    i64 n_actions = evenly(r.size, v.size);
    REQUIRE(n_actions > 0 && r.size == p.count() && active.size == r.size && d.size == r.size);
    REQUIRE(policy.size == r.size);
    Buffer<double> wanted(n_actions);
    REQUIRE_MEMORY(wanted);
    for (i64 s = 0; s < v.size; ++s) {
        i64 first = s * n_actions;
        double mass = 0.0;
        for (i64 a = 0; a < n_actions; ++a) {
            i64 row = first + a;
            wanted[a] = -INFINITE;
            if (!active[row]) continue;
            mass += d[row];
            double paid = r[row] + gamma * expectation(p, v, row) - v[s];
            wanted[a] = d[row] + std::clamp(paid / h, -MAX_STEP, MAX_STEP);
        }
        nearest_shares(wanted, mass, policy.data + first);
    }
    return {};
}

inline const Kernel kernels[] = {
    kernel<simplex_threshold>("simplex_threshold", "x mass",
                              "The number that the entries above it exceed by `mass` together."),
    kernel<projected_step<i32>, projected_step<i64>>(
        "projected_step", "indptr indices data r active gamma v d h policy",
        "policy: every state's mass spread nearest to d + (r + gamma E[v] - v) / h."),
};

inline const Subject listed = subject("simplex", "Distributions nearest to given numbers.", kernels);

}  // namespace cautious::simplex
