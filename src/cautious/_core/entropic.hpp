// Loops of the entropic dual: sums of exponentials, the dual along a line, and conjugate gradients.
//
// Legend: P and B as in flow.hpp; ell (S*A,) exponents, minus infinity where a pair cannot be used; y (S*A,) the weights
// exp(ell) over their sum.
//
//     N = [ B' diag(y) B   U ]     U (S, k) and K (k, k): border of the k prices, empty without features.
//         [ U'             K ]
#pragma once
#include "entrywise.hpp"
#include "flow.hpp"
#include "vec_math.hpp"

namespace cautious::entropic {

using namespace flow;

// Rows that are worked on together: they stay in the cache nearest to the processor.
inline constexpr i64 BLOCK_ROWS = 512;

// out(s) = log sum_a exp(ell(s, a)) and policy(a | s) = exp(ell(s, a) - out(s)); minus infinity and zeros in a state
// without a usable pair.
inline Done by_state(In<double> ell, Out<double> out, Out<double> policy) {
    i64 n_actions = evenly(ell.size, out.size);
    REQUIRE(n_actions > 0 && policy.size == ell.size);
    i64 block = std::max<i64>(1, BLOCK_ROWS / n_actions);
    for (i64 begin = 0; begin < out.size; begin += block) {
        i64 end = std::min(begin + block, out.size);
        for (i64 s = begin, row = begin * n_actions; s < end; ++s) {
            double top = -INFINITE;
            for (i64 a = 0; a < n_actions; ++a) top = std::max(top, ell[row + a]);
            double shift = top > -INFINITE ? top : 0.0;
            for (i64 a = 0; a < n_actions; ++a, ++row) policy[row] = ell[row] - shift;
            out[s] = top;
        }
        exponentials(policy.part(begin * n_actions, end * n_actions));
        for (i64 s = begin, row = begin * n_actions; s < end; ++s) {
            double total = 0.0;
            for (i64 a = 0; a < n_actions; ++a) total += policy[row + a];
            total = std::max(total, 1.0);
            for (i64 a = 0; a < n_actions; ++a, ++row) policy[row] /= total;
            out[s] += std::log(total);
        }
    }
    return {};
}

// out(s, a) = policy(a | s) times the logarithmic mean of exp(log_mass(s)) and wanted(s) > 0.
inline Done spread_weights(In<double> policy, In<double> log_mass, In<double> wanted, Out<double> out) {
    i64 n_actions = evenly(policy.size, wanted.size);
    REQUIRE(n_actions > 0 && log_mass.size == wanted.size && out.size == policy.size);
    for (i64 s = 0, row = 0; s < wanted.size; ++s) {
        double ratio = log_mass[s] - std::log(wanted[s]);
        double mean = wanted[s] * (std::abs(ratio) > 1e-6 ? std::expm1(ratio) / ratio : 1.0);
        for (i64 a = 0; a < n_actions; ++a, ++row) out[row] = policy[row] * mean;
    }
    return {};
}

// Sums over rows of w, w p and w p^2 where w = exp(ell + length p - top), and the largest exponent.
struct LineSums {
    ExpVec total = ExpVec::all(0.0), first = total, second = total, highest = ExpVec::all(-INFINITE);

    void add(const double* ell, const double* p, double length, double top) {
        ExpVec slope = ExpVec::load(p);
        ExpVec exponent = multiply_add(ExpVec::all(length), slope, ExpVec::load(ell));
        highest = larger(exponent, highest);
        // the smaller of the two, so that sums stay finite until the loop starts again
        ExpVec weight = exponential(ExpVec::all(0.0) - larger(ExpVec::all(-600.0), ExpVec::all(top) - exponent));
        total = total + weight;
        first = multiply_add(weight, slope, first);
        second = multiply_add(weight * slope, slope, second);
    }
};

// log sum exp(ell + length p) and its first two derivatives in `length`. Weights are in units of exp(top); if `top`
// turns out too low or too high for double precision, the loop starts again with the right one.
inline std::tuple<double, double, double> along(In<double> ell, In<double> p, double length) {
    REQUIRE(p.size == ell.size);
    i64 even = ell.size - ell.size % EXP_LANES;
    double last_ell[EXP_LANES], last_p[EXP_LANES] = {}, top = 0.0;
    std::fill(last_ell, last_ell + EXP_LANES, -INFINITE);
    std::copy(ell.data + even, ell.data + ell.size, last_ell);
    std::copy(p.data + even, p.data + p.size, last_p);
    for (bool again = true;; again = false) {
        LineSums sums;
        for (i64 row = 0; row < even; row += EXP_LANES) sums.add(ell.data + row, p.data + row, length, top);
        sums.add(last_ell, last_p, length, top);
        double highest = sums.highest.largest();
        if (again && std::abs(highest - top) >= 500.0 && std::isfinite(highest)) {
            top = highest;
            continue;
        }
        double total = sums.total.sum(), mean = sums.first.sum() / total;
        return {top + std::log(total), mean, std::max(sums.second.sum() / total - mean * mean, 0.0)};
    }
}

// out = M^-1 residual, block by block; the result is <residual, out>. `corner` (k, k) inverts the prices' block.
inline double precondition(In<double> inverse_diagonal, Matrix<const double> corner, In<double> residual,
                           Out<double> out) {
    i64 n = inverse_diagonal.size, k = corner.rows;
    REQUIRE(corner.columns == k && residual.size == n + k && out.size == n + k);
    double total = sums<1>(n, [&](auto v, i64 s) {
        auto left = at(v, residual, s), scaled = at(v, inverse_diagonal, s) * left;
        put(out, s, scaled);
        return std::array{left * scaled};
    })[0];
    for (i64 i = 0; i < k; ++i) {
        double entry = 0.0;
        for (i64 j = 0; j < k; ++j) entry += corner(i, j) * residual[n + j];
        out[n + i] = entry;
        total += residual[n + i] * entry;
    }
    return total;
}

// out = B' diag(y) B x in one pass over the transitions; pairs of weight zero are skipped.
template <class I>
void normal_product(In<i64> first, const Rows<I>& p, double gamma, In<double> y, In<double> x, Out<double> out) {
    out.fill(0.0);
    for (i64 s = 0; s < x.size; ++s) {
        double leaving = 0.0;
        for (i64 row = first[s]; row < first[s + 1]; ++row) {
            if (y[row] == 0.0) continue;
            double mass = y[row] * (gamma * expectation(p, x, row) - x[s]);
            leaving += mass;
            add_row(p, gamma * mass, row, out);
        }
        out[s] -= leaving;
    }
}

// out = N x for x (S + k,).
template <class I>
void bordered_product(In<i64> first, const Rows<I>& p, double gamma, In<double> y, Matrix<const double> border,
                      Matrix<const double> block, In<double> x, Out<double> out) {
    i64 n = border.rows, k = border.columns;
    normal_product<I>(first, p, gamma, y, x.part(0, n), out.part(0, n));
    for (i64 i = 0; i < k; ++i) {
        double entry = 0.0;
        for (i64 j = 0; j < k; ++j) entry += block(i, j) * x[n + j];
        out[n + i] = entry;
    }
    if (k == 0) return;
    for (i64 s = 0; s < n; ++s)
        for (i64 i = 0; i < k; ++i) {
            out[s] += border(s, i) * x[n + i];
            out[n + i] += border(s, i) * x[s];
        }
}

// Go on with N x = right for some steps from x, residual and direction, all overwritten. `gains`: what the last steps
// added to <right, x>, oldest overwritten first; its last entry is the total. Stops, and returns the steps made, when
// the last ones together added at most `share` of the total; a negative number says that rounding ends it.
template <class I>
i64 conjugate_gradients(In<i64> first, Rows<I> p, double gamma, In<double> y, Matrix<const double> border,
                        Matrix<const double> block, In<double> inverse_diagonal, Matrix<const double> corner,
                        Out<double> x, Out<double> residual, Out<double> direction, Out<double> gains, double share,
                        i64 steps) {
    i64 n = border.rows, k = border.columns, last = gains.size - 1;
    REQUIRE(pairs_fit(first, p, n) && y.size == p.count() && inverse_diagonal.size == n);
    REQUIRE(block.rows == k && block.columns == k && corner.rows == k && corner.columns == k);
    REQUIRE(x.size == n + k && residual.size == n + k && direction.size == n + k);
    REQUIRE(last > 0 && steps >= 0);
    Buffer<double> image(x.size);
    REQUIRE_MEMORY(image);
    double squared = precondition(inverse_diagonal, corner, residual, image);
    for (i64 step = 0; step < steps; ++step) {
        bordered_product<I>(first, p, gamma, y, border, block, direction, image);
        double curvature = dot(direction, image);
        if (!(curvature > 0.0) || !(squared > 0.0)) return -1;
        double length = squared / curvature;
        add_multiple(x, length, direction);
        add_multiple(residual, -length, image);
        gains[step % last] = length * squared;
        gains[last] += length * squared;
        double before = squared;
        squared = precondition(inverse_diagonal, corner, residual, image);
        scale_and_add(direction, squared / before, image);
        double recent = 0.0;
        for (i64 i = 0; i < last; ++i) recent += gains[i];
        if (recent <= share * gains[last]) return step + 1;
    }
    return steps;
}

inline const Kernel kernels[] = {
    kernel<exponentials>("exponentials", "x", "x = exp(x) in place."),
    kernel<by_state>("by_state", "ell out policy", "out = log sum_a exp(ell(s, a)), policy = exp(ell - out)."),
    kernel<spread_weights>("spread_weights", "policy log_mass wanted out",
                           "out = policy times the logarithmic mean of exp(log_mass) and wanted."),
    kernel<along>("along", "ell p length", "log sum exp(ell + length p) and its first two derivatives in length."),
    kernel<precondition>("precondition", "inverse_diagonal corner residual out",
                         "out = M^-1 residual, block by block; returns <residual, out>."),
    kernel<conjugate_gradients<i32>, conjugate_gradients<i64>>(
        "conjugate_gradients",
        "first indptr indices data gamma y border block inverse_diagonal corner x residual direction gains share steps",
        "Go on with N x = right; returns the steps made, or a negative number when rounding ends it."),
};

inline const Subject listed =
    subject("entropic", "Loops of the entropic dual: sums of exponentials, and conjugate gradients.", kernels);

}  // namespace cautious::entropic
