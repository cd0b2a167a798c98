// Outcomes of a block of pairs, as a function gives them: checked, then stored as sparse rows of one length.
//
// Legend: the i-th of n pairs leads to successors (n, k) with probabilities (n, k) and pays rewards (n, k); its row is
// number at[i] of the rows that are written, which have k entries each.
#pragma once
#include "binding.hpp"

namespace cautious::outcomes {

// how far the probabilities of a pair may be from summing to one
inline constexpr double SUM_TOLERANCE = 1e-9;
inline constexpr double EPS = std::numeric_limits<double>::epsilon();

// A number in [0, 1) that depends on the place of a row and on a successor.
inline double mixed(i64 place, i64 successor) {
    u64 x = static_cast<u64>(successor) * 0x9E3779B97F4A7C15u + static_cast<u64>(place) * 0xD1B54A32D192ED03u;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
    return static_cast<double>(x >> 11) * 0x1p-53;
}

// Writes the rows, with probabilities divided by their sum where that is not one to rounding, and the mean reward of
// each pair. Returns the first pair that is refused, -1 if there is none, and two numbers by which another call is
// compared with this one: those of the same transitions, and of the same rewards, differ by rounding only. Successors are
// looked at before anything can use them as an index.
template <class J>
std::tuple<i64, double, double> store_outcomes(In<i64> successors, In<double> probabilities, In<double> rewards, i64 n_states,
                                       In<i64> at, Out<J> indices, Out<double> data, Out<double> mean) {
    i64 n = at.size, k = evenly(successors.size, n);
    REQUIRE(n > 0 && k > 0 && probabilities.size == successors.size && rewards.size == successors.size);
    REQUIRE(n_states > 0 && mean.size == n && indices.size == data.size && n_states - 1 <= std::numeric_limits<J>::max());
    REQUIRE(all_within(at, 0, indices.size / k));
    double moves = 0.0, pay = 0.0;
    for (i64 i = 0; i < n; ++i) {
        const i64* next = successors.data + i * k;
        const double *chance = probabilities.data + i * k, *paid = rewards.data + i * k;
        double total = 0.0, earned = 0.0;
        bool fine = true;
        for (i64 j = 0; j < k; ++j) {
            // a negative number is a large one without its sign
            fine &= (static_cast<u64>(next[j]) < static_cast<u64>(n_states)) & (chance[j] >= 0.0);
            total += chance[j];
            earned += chance[j] * paid[j];
            moves += chance[j] * mixed(i, next[j]);
        }
        // the mean of rewards of which one is not finite is not finite, also where its probability is 0
        if (!fine || !(std::abs(total - 1.0) <= SUM_TOLERANCE) || !std::isfinite(earned)) return {i, moves, pay};
        bool exact = std::abs(total - 1.0) <= EPS * static_cast<double>(2 + k);
        mean[i] = exact ? earned : earned / total;
        pay += mean[i] * mixed(i, n);
        J* index = indices.data + at[i] * k;
        double* stored = data.data + at[i] * k;
        for (i64 j = 0; j < k; ++j) {
            index[j] = static_cast<J>(next[j]);
            stored[j] = exact ? chance[j] : chance[j] / total;
        }
    }
    return {-1, moves, pay};
}

inline const Kernel kernels[] = {
    kernel<store_outcomes<i32>, store_outcomes<i64>>(
        "store_outcomes", "successors probabilities rewards n_states at indices data mean",
        "Checks the outcomes of n pairs and stores them as rows; the first refused pair or -1, and two sums."),
};

inline const Subject listed =
    subject("outcomes", "Outcomes that a function gives: checked, then stored as sparse rows.", kernels);

}  // namespace cautious::outcomes
