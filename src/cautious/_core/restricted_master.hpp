// The restricted master problem of column generation, by a primal-dual interior point.
//
//     maximise   p w - c t + sum_j f_j log s_j    over w >= 0, sum w = 1,   s = A w + t(group) - h >= 0
//
// Legend: `p` (K,) profit of a column, `c` (G,) cost of the top `t` (G,) of a group, `a` (m, K), `h` (m,), `f` (m,)
// weight of a logarithm (0 for rows of a group), `group` (m,) or -1; duals `u` (m,) of the rows, `x` (K,) of w >= 0,
// `nu` of the sum. The dual may carry a penalty q/2 (u - centre)^2, which adds q (u - centre) to the rows. Points of
// the central path have  w x = mu,  s u = f + mu. Each step solves m + G + 1 equations: the columns are eliminated,
// because their block of the Newton matrix is diagonal.
#pragma once
#include "binding.hpp"
#include "vec.hpp"

namespace cautious::restricted_master {

inline constexpr int MAX_NEWTON_STEPS = 100;
// the largest error of an equation that counts as solved, and of a product at the end of the path
inline constexpr double MAX_EQUATION_ERROR = 1e-11, MAX_PRODUCT_ERROR = 1e-13;
// the barrier falls at most by this factor in a step
inline constexpr double MIN_BARRIER_SHARE = 0.05;
// share of the way to the boundary that a step may go
inline constexpr double BOUNDARY_SHARE = 0.99;

// The larger of two numbers, or the one that is none.
inline double larger_or_nan(double a, double b) { return a > b || a != a ? a : b; }

inline double largest_size(In<double> x) {
    double most = 0.0;
    for (double number : x) most = larger_or_nan(most, std::abs(number));
    return most;
}

inline double sum(In<double> x) {
    double total = 0.0;
    for (double number : x) total += number;
    return total;
}

inline bool all_finite(In<double> x) {
    for (double number : x)
        if (!std::isfinite(number)) return false;
    return true;
}

// One allocation for the many short arrays of a kernel.
struct Scratch {
    Buffer<double> all;
    i64 used = 0;

    Span<double> take(i64 count) {
        used += count;
        return all.span().part(used - count, used);
    }
    Matrix<double> take(i64 rows, i64 columns) { return {take(rows * columns).data, rows, columns}; }
};

inline void copy(In<double> from, Out<double> to) { std::copy(from.begin(), from.end(), to.begin()); }

// Solve matrix x = right in place by elimination with partial pivoting; a pivot of zero leaves its unknown at zero.
inline void solve_linear(Matrix<double> matrix, Out<double> right) {
    i64 n = matrix.rows;
    auto rest = [&](i64 i, i64 k) { return matrix.row(i).part(k, n); };
    for (i64 k = 0; k < n; ++k) {
        i64 best = k;
        for (i64 i = k + 1; i < n; ++i)
            if (std::abs(matrix(i, k)) > std::abs(matrix(best, k))) best = i;
        if (matrix(best, k) == 0.0) {
            rest(k, k).fill(0.0);
            right[k] = 0.0;
            matrix(k, k) = 1.0;
            continue;
        }
        if (best != k) {
            std::swap_ranges(rest(k, k).begin(), rest(k, k).end(), rest(best, k).begin());
            std::swap(right[k], right[best]);
        }
        for (i64 i = k + 1; i < n; ++i) {
            double factor = matrix(i, k) / matrix(k, k);
            add_multiple(rest(i, k), -factor, rest(k, k));
            right[i] -= factor * right[k];
        }
    }
    for (i64 k = n - 1; k >= 0; --k) {
        for (i64 j = k + 1; j < n; ++j) right[k] -= matrix(k, j) * right[j];
        right[k] /= matrix(k, k);
    }
}

// How far one can go along dx before an entry of x > 0 reaches zero.
inline double longest_step(In<double> x, In<double> dx) {
    double longest = INFINITE;
    for (i64 i = 0; i < x.size; ++i)
        if (dx[i] < 0.0) longest = std::min(longest, -x[i] / dx[i]);
    return longest;
}

// The largest of |x y - f - mu|.
inline double largest_error(In<double> x, In<double> y, In<double> f, double mu) {
    double most = 0.0;
    for (i64 i = 0; i < x.size; ++i) {
        double wanted = (f.size > 0 ? f[i] : 0.0) + mu;
        most = larger_or_nan(most, std::abs(x[i] * y[i] - wanted));
    }
    return most;
}

// The problem, see the legend.
struct Master {
    In<double> p, c;
    Matrix<const double> a;
    In<double> h, f;
    In<i64> group;
    In<double> q, centre;

    i64 columns() const { return p.size; }
    i64 rows() const { return h.size; }
    i64 unknowns() const { return h.size + c.size + 1; }
};

// A point, what it misses, and the Newton step from there: `misses` of the rows, `lacks` of the groups, `flat` of the
// columns' own equations p + A' u + x = nu, `total` of the sum of the weights. The Newton system has the unknowns
// (du, dt, dnu); `own` is the rows' diagonal, d = w / x; `pull` moves w, `gaps` the rows.
struct Iterate {
    const Master& master;
    Scratch scratch;
    Span<double> w, x, flat, d, pull, weighted, dw, dx, s, u, misses, gaps, own, ds, t, lacks, right;
    Matrix<double> matrix;
    double nu = 0.0, total = 0.0;

    explicit Iterate(const Master& master)
        : master(master),
          scratch{Buffer<double>(8 * master.columns() + 6 * master.rows() + 2 * master.c.size +
                                 master.unknowns() * (1 + master.unknowns()))} {
        if (scratch.all.data == nullptr) return;
        for (auto* array : {&w, &x, &flat, &d, &pull, &weighted, &dw, &dx}) *array = scratch.take(master.columns());
        for (auto* array : {&s, &u, &misses, &gaps, &own, &ds}) *array = scratch.take(master.rows());
        for (auto* array : {&t, &lacks}) *array = scratch.take(master.c.size);
        right = scratch.take(master.unknowns());
        matrix = scratch.take(master.unknowns(), master.unknowns());
    }
    double top(i64 j) const { return master.group[j] >= 0 ? t[master.group[j]] : 0.0; }

    // The point with equal weights and mu = 1.
    void start() {
        double n = static_cast<double>(w.size);
        w.fill(1.0 / n);
        x.fill(n);
        t.fill(1.0);
        for (i64 j = 0; j < s.size; ++j) {
            s[j] = std::max(0.1, dot(master.a.row(j), w) - master.h[j] + top(j));
            u[j] = (master.f[j] + 1.0) / s[j];
        }
    }
    // Set all that the point misses; the largest of it.
    double measure() {
        for (i64 k = 0; k < w.size; ++k) flat[k] = master.p[k] + x[k] - nu;
        copy(master.c, lacks);
        for (i64 j = 0; j < s.size; ++j) {
            double held = master.q[j] * (u[j] - master.centre[j]) - master.h[j] - s[j];
            misses[j] = held + dot(master.a.row(j), w) + top(j);
            if (master.group[j] >= 0) lacks[master.group[j]] -= u[j];
            add_multiple(flat, u[j], master.a.row(j));
        }
        total = 1.0 - sum(w);
        return larger_or_nan(larger_or_nan(largest_size(misses), largest_size(flat)), std::abs(total));
    }
    // The mean product of numbers and their duals, logarithms apart.
    double gap() const {
        double products = dot(w, x) + std::max(0.0, dot(s, u) - sum(master.f));
        return products / static_cast<double>(w.size + s.size);
    }
    // Matrix and right side of the Newton system.
    void assemble() {
        i64 m = s.size, last = right.size - 1;
        std::fill_n(matrix.data, right.size * right.size, 0.0);
        copy(lacks, right.part(m, last));
        matrix(last, last) = sum(d);
        right[last] = dot(d, pull) - total;
        for (i64 i = 0; i < m; ++i) {
            for (i64 k = 0; k < d.size; ++k) weighted[k] = d[k] * master.a(i, k);
            right[i] = gaps[i] - dot(weighted, pull);
            matrix(i, last) = matrix(last, i) = -sum(weighted);
            for (i64 j = 0; j <= i; ++j) matrix(i, j) = matrix(j, i) = dot(weighted, master.a.row(j));
            matrix(i, i) += own[i];
            if (i64 group = master.group[i]; group >= 0) matrix(i, m + group) = matrix(m + group, i) = 1.0;
        }
    }
    // Set the Newton step to the point of the path at `mu`; false if rounding defeats it.
    bool aim(double mu) {
        for (i64 k = 0; k < w.size; ++k) d[k] = w[k] / x[k], pull[k] = flat[k] + mu / w[k] - x[k];
        for (i64 j = 0; j < s.size; ++j) {
            own[j] = s[j] / u[j] + master.q[j];
            gaps[j] = (master.f[j] + mu) / u[j] - s[j] - misses[j];
        }
        assemble();
        solve_linear(matrix, right);
        for (i64 k = 0; k < w.size; ++k) dw[k] = pull[k] - right[right.size - 1];
        for (i64 j = 0; j < s.size; ++j) {
            add_multiple(dw, right[j], master.a.row(j));
            ds[j] = (master.f[j] + mu) / u[j] - s[j] - s[j] / u[j] * right[j];
        }
        for (i64 k = 0; k < w.size; ++k) {
            dw[k] *= d[k];
            dx[k] = mu / w[k] - x[k] - dw[k] / d[k];
        }
        return all_finite(right);
    }
    // Go along the step, at most this far and not quite to the boundary; how far, not finite if nowhere.
    double advance() {
        In<double> du = right.part(0, s.size), dt = right.part(s.size, right.size - 1);
        double length = std::min(std::min(longest_step(w, dw), longest_step(s, ds)),
                                 std::min(longest_step(u, du), longest_step(x, dx)));
        length = std::min(1.0, BOUNDARY_SHARE * length);
        if (!std::isfinite(length)) return length;
        nu += length * right[right.size - 1];
        add_multiple(w, length, dw);
        add_multiple(s, length, ds);
        add_multiple(t, length, dt);
        add_multiple(u, length, du);
        add_multiple(x, length, dx);
        return length;
    }
};

// Weights w (K,), prices u (m,) on the central path at `mu_end`, and what is still amiss there.
inline std::tuple<Buffer<double>, Buffer<double>, double> central_point(In<double> p, In<double> c,
                                                                        Matrix<const double> a, In<double> h,
                                                                        In<double> f, In<i64> group, In<double> q,
                                                                        In<double> centre, double mu_end) {
    i64 n = p.size, m = h.size;
    REQUIRE(n > 0 && a.rows == m && a.columns == n && f.size == m && group.size == m && q.size == m);
    REQUIRE(centre.size == m && all_within(group, -1, c.size));
    Master master{p, c, a, h, f, group, q, centre};
    Iterate point(master);
    Buffer<double> w(n), u(m);
    REQUIRE_MEMORY(point.scratch.all, w, u);
    point.start();
    double length = 0.0, amiss = INFINITE;
    for (int step = 0; step < MAX_NEWTON_STEPS; ++step) {
        double missed = point.measure();
        double off = larger_or_nan(largest_error(point.w, point.x, {}, mu_end),
                                   largest_error(point.s, point.u, f, mu_end));
        amiss = larger_or_nan(missed, off);
        if (missed < MAX_EQUATION_ERROR && off < std::max(MAX_PRODUCT_ERROR, 0.1 * mu_end)) break;
        double mu = std::max(mu_end, point.gap() * std::max(MIN_BARRIER_SHARE, (1.0 - length) * (1.0 - length)));
        if (!point.aim(mu)) break;
        length = point.advance();
        if (!std::isfinite(length)) break;
    }
    copy(point.w, w);
    copy(point.u, u);
    return {std::move(w), std::move(u), amiss};
}

inline const Kernel kernels[] = {
    kernel<central_point>("central_point", "p c a h f group q centre mu_end",
                          "Weights and prices on the central path at mu_end, and the largest error there."),
};

inline const Subject listed =
    subject("restricted_master", "The restricted master problem of column generation.", kernels);

}  // namespace cautious::restricted_master
