// The small problem of column generation by a primal-dual interior point, and the smooth model of what a planner earns.
//
//     maximise   p w - c t + sum_j f_j log s_j    over w >= 0, sum w = 1,   s = A w + t(group) - h >= 0
//
// Legend: `p` (K,) profit of a column, `c` (G,) cost of the top `t` (G,) of a group, `a` (m, K), `h` (m,), `f` (m,)
// weight of a logarithm (0 for rows of a group), `group` (m,) or -1; duals `u` (m,) of the rows, `x` (K,) of w >= 0,
// `nu` of the sum. The dual may carry a penalty q/2 (u - centre)^2, which adds q (u - centre) to the rows. Points of
// the central path have  w x = mu,  s u = f + mu. Each step solves m + G + 1 equations: the columns are eliminated,
// because their block of the Newton matrix is diagonal.
//
// Of the model: `asked` (n, m) prices of n plans and `slopes` (n, m) the features of their behaviours, both in units of
// the features' size, signs such that all prices are positive; `near` (m,) the prices that matter.
#pragma once
#include "binding.hpp"
#include "vec.hpp"

namespace cautious::restricted_master {

inline constexpr int MOST_STEPS = 100;
// the largest error of an equation that is solved, and of a product at the end of the path
inline constexpr double EXACT = 1e-11, EXACT_PRODUCT = 1e-13;
// pivots below this part of the largest entry count as zero
inline constexpr double SINGULAR = 1e-14;
inline constexpr double LEAST_PRICE = 1e-300;
// how much the curvature is drawn to the typical one, and the least of it in any direction, as a share of that
inline constexpr double TYPICAL_WEIGHT = 1e-2, LEAST_CURVATURE = 1e-3;
inline constexpr int MOST_ROTATIONS = 50, MOST_NEWTON_STEPS = 60;
inline constexpr double NEWTON_PRECISION = 1e-6;
inline constexpr double FIRST_BARRIER = 0.1, LAST_BARRIER = 1e-10, BARRIER_FALL = 0.1;

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

inline double square_distance(In<double> x, In<double> y) {
    double total = 0.0;
    for (i64 i = 0; i < x.size; ++i) total += (x[i] - y[i]) * (x[i] - y[i]);
    return total;
}

// y += factor x
inline void add_multiple(Out<double> y, double factor, In<double> x) {
    using V = Vec<double, REGISTER_BYTES / sizeof(double)>;
    i64 i = 0;
    for (; i + V::WIDTH <= y.size; i += V::WIDTH)
        (V::load(y.data + i) + V::all(factor) * V::load(x.data + i)).store(y.data + i);
    for (; i < y.size; ++i) y[i] += factor * x[i];
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

// Units in which all numbers are about one: of the returns (K,), at least `least`, and of each feature (m, K). The
// features of a group share theirs.
inline std::tuple<double, Buffer<double>> units(In<double> returns, Matrix<const double> features, In<double> floor,
                                                In<i64> group, double least) {
    i64 m = group.size;
    REQUIRE(returns.size > 0 && features.rows == m && features.columns == returns.size && floor.size == m);
    Buffer<double> size(m);
    REQUIRE_MEMORY(size);
    for (i64 i = 0; i < m; ++i) {
        size[i] = std::max(std::abs(floor[i]), largest_size(features.row(i)));
        if (size[i] == 0.0) size[i] = 1.0;
    }
    for (i64 i = 0; i < m; ++i)
        for (i64 j = 0; j < m; ++j)
            if (group[i] >= 0 && group[i] == group[j]) size[i] = std::max(size[i], size[j]);
    auto [low, high] = std::minmax_element(returns.begin(), returns.end());
    return {std::max({*high - *low, least, 1e-300}), std::move(size)};
}

// `p` (K,) and `a` (m, K) of the chosen columns; returns count from their mean.
inline std::tuple<Buffer<double>, Buffer<double>> scaled_columns(In<double> returns, Matrix<const double> features,
                                                                 In<i64> chosen, double unit, In<double> size,
                                                                 In<i64> group) {
    REQUIRE(features.rows == group.size && features.columns == returns.size && size.size == group.size);
    REQUIRE(all_within(chosen, 0, returns.size));
    Buffer<double> p(chosen.size);
    auto a = Buffer<double>::table(group.size, chosen.size, 0.0);
    REQUIRE_MEMORY(p, a);
    double mean = sum(returns) / static_cast<double>(returns.size);
    for (i64 k = 0; k < chosen.size; ++k) p[k] = (returns[chosen[k]] - mean) / unit;
    for (i64 i = 0; i < group.size; ++i) {
        double sign = group[i] < 0 ? 1.0 : -1.0;
        for (i64 k = 0; k < chosen.size; ++k)
            a[i * chosen.size + k] = sign * features(i, chosen[k]) / size[i];
    }
    return {std::move(p), std::move(a)};
}

// Prices (m,), all positive, those of a group in proportion such that they add up to its total.
inline Buffer<double> normalised_prices(In<double> prices, In<i64> group, In<double> totals) {
    REQUIRE(prices.size == group.size && all_within(group, -1, totals.size));
    Buffer<double> out(prices.size), sums(totals.size, 0.0);
    REQUIRE_MEMORY(out, sums);
    for (i64 i = 0; i < group.size; ++i) {
        out[i] = prices[i] < LEAST_PRICE ? LEAST_PRICE : prices[i];
        if (group[i] >= 0) sums[group[i]] += out[i];
    }
    for (i64 i = 0; i < group.size; ++i)
        if (group[i] >= 0) out[i] *= totals[group[i]] / sums[group[i]];
    return out;
}

// Solve matrix X = right in place by elimination with partial pivoting; a pivot of zero leaves its unknown at zero.
inline void solve_in_place(Matrix<double> matrix, Matrix<double> right) {
    i64 n = matrix.rows;
    auto rest = [&](i64 i, i64 k) { return matrix.row(i).part(k, n); };
    for (i64 k = 0; k < n; ++k) {
        i64 best = k;
        for (i64 i = k + 1; i < n; ++i)
            if (std::abs(matrix(i, k)) > std::abs(matrix(best, k))) best = i;
        if (matrix(best, k) == 0.0) {
            rest(k, k).fill(0.0);
            right.row(k).fill(0.0);
            matrix(k, k) = 1.0;
            continue;
        }
        if (best != k) {
            std::swap_ranges(rest(k, k).begin(), rest(k, k).end(), rest(best, k).begin());
            std::swap_ranges(right.row(k).begin(), right.row(k).end(), right.row(best).begin());
        }
        for (i64 i = k + 1; i < n; ++i) {
            double factor = matrix(i, k) / matrix(k, k);
            if (factor == 0.0) continue;
            add_multiple(rest(i, k), -factor, rest(k, k));
            add_multiple(right.row(i), -factor, right.row(k));
        }
    }
    for (i64 k = n - 1; k >= 0; --k) {
        for (i64 j = k + 1; j < n; ++j) add_multiple(right.row(k), -matrix(k, j), right.row(j));
        for (double& number : right.row(k)) number /= matrix(k, k);
    }
}

// The same for one right side or several (n, any number), by columns.
inline Done solve_linear(Matrix<double> matrix, Out<double> right) {
    i64 n = matrix.rows;
    REQUIRE(n > 0 && matrix.columns == n && evenly(right.size, n) > 0);
    solve_in_place(matrix, {right.data, n, evenly(right.size, n)});
    return {};
}

// Matrix and right side for (du, dt, dnu). `own` is the rows' diagonal, d = w / x; `pull` moves w, `gaps` rows, `lacks`
// groups, `total` the sum.
inline Done newton_system(Matrix<const double> a, In<i64> group, In<double> own, In<double> d, In<double> pull,
                          In<double> gaps, In<double> lacks, double total, Matrix<double> matrix, Out<double> right) {
    i64 m = group.size, n = m + lacks.size + 1, last = n - 1;
    REQUIRE(a.rows == m && a.columns == d.size && own.size == m && gaps.size == m && pull.size == d.size);
    REQUIRE(matrix.rows == n && matrix.columns == n && right.size == n && all_within(group, -1, lacks.size));
    Buffer<double> weighted(d.size);
    REQUIRE_MEMORY(weighted);
    std::fill(matrix.data, matrix.data + n * n, 0.0);
    copy(lacks, right.part(m, last));
    matrix(last, last) = sum(d);
    right[last] = dot<double>(d, pull) - total;
    for (i64 i = 0; i < m; ++i) {
        for (i64 k = 0; k < d.size; ++k) weighted[k] = d[k] * a(i, k);
        right[i] = gaps[i] - dot<double>(weighted, pull);
        matrix(i, last) = matrix(last, i) = -sum(weighted);
        for (i64 j = 0; j <= i; ++j) matrix(i, j) = matrix(j, i) = dot<double>(weighted, a.row(j));
        matrix(i, i) += own[i];
        if (group[i] >= 0) matrix(i, m + group[i]) = matrix(m + group[i], i) = 1.0;
    }
    return {};
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
// columns' own equations p + A' u + x = nu, `total` of the sum of the weights.
struct Iterate {
    const Master& master;
    Scratch scratch;
    Span<double> w, x, flat, d, pull, dw, dx, s, u, misses, gaps, own, ds, t, lacks, right;
    Matrix<double> matrix;
    double nu = 0.0, total = 0.0;

    explicit Iterate(const Master& master)
        : master(master),
          scratch{Buffer<double>(7 * master.columns() + 6 * master.rows() + 2 * master.c.size +
                                 master.unknowns() * (1 + master.unknowns()))} {
        if (scratch.all.data == nullptr) return;
        for (auto* array : {&w, &x, &flat, &d, &pull, &dw, &dx}) *array = scratch.take(master.columns());
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
            s[j] = std::max(0.1, dot<double>(master.a.row(j), w) - master.h[j] + top(j));
            u[j] = (master.f[j] + 1.0) / s[j];
        }
    }
    // Set all that the point misses; the largest of it.
    double measure() {
        for (i64 k = 0; k < w.size; ++k) flat[k] = master.p[k] + x[k] - nu;
        copy(master.c, lacks);
        for (i64 j = 0; j < s.size; ++j) {
            double held = master.q[j] * (u[j] - master.centre[j]) - master.h[j] - s[j];
            misses[j] = held + dot<double>(master.a.row(j), w) + top(j);
            if (master.group[j] >= 0) lacks[master.group[j]] -= u[j];
            add_multiple(flat, u[j], master.a.row(j));
        }
        total = 1.0 - sum(w);
        return larger_or_nan(larger_or_nan(largest_size(misses), largest_size(flat)), std::abs(total));
    }
    // The mean product of numbers and their duals, logarithms apart.
    double gap() const {
        double products = dot<double>(w, x) + std::max(0.0, dot<double>(s, u) - sum(master.f));
        return products / static_cast<double>(w.size + s.size);
    }
    // Set the Newton step to the point of the path at `mu`; false if rounding defeats it.
    bool aim(double mu) {
        for (i64 k = 0; k < w.size; ++k) d[k] = w[k] / x[k], pull[k] = flat[k] + mu / w[k] - x[k];
        for (i64 j = 0; j < s.size; ++j) {
            own[j] = s[j] / u[j] + master.q[j];
            gaps[j] = (master.f[j] + mu) / u[j] - s[j] - misses[j];
        }
        newton_system(master.a, master.group, own, d, pull, gaps, lacks, total, matrix, right);
        solve_in_place(matrix, {right.data, right.size, 1});
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
        length = std::min(1.0, 0.99 * length);
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
    for (int step = 0; step < MOST_STEPS; ++step) {
        double missed = point.measure();
        double off = larger_or_nan(largest_error(point.w, point.x, {}, mu_end),
                                   largest_error(point.s, point.u, f, mu_end));
        amiss = larger_or_nan(missed, off);
        if (missed < EXACT && off < std::max(EXACT_PRODUCT, 0.1 * mu_end)) break;
        double mu = std::max(mu_end, point.gap() * std::max(0.05, (1.0 - length) * (1.0 - length)));
        if (!point.aim(mu)) break;
        length = point.advance();
        if (!std::isfinite(length)) break;
    }
    copy(point.w, w);
    copy(point.u, u);
    return {std::move(w), std::move(u), amiss};
}

// The largest entry of a matrix from row and column k on.
inline std::tuple<i64, i64> largest_entry(Matrix<const double> matrix, i64 k) {
    i64 row = k, column = k;
    for (i64 i = k; i < matrix.rows; ++i)
        for (i64 j = k; j < matrix.columns; ++j)
            if (std::abs(matrix(i, j)) > std::abs(matrix(row, column))) row = i, column = j;
    return {row, column};
}

// x (n + 1,) with largest entry one and  matrix x = 0  for a matrix (n, n + 1), which is used up on the way; `order` is
// scratch.
inline Done null_vector(Matrix<double> matrix, Out<i64> order, Out<double> x) {
    i64 n = matrix.rows, rank = n;
    REQUIRE(matrix.columns == n + 1 && order.size == n + 1 && x.size == n + 1);
    double least = SINGULAR * largest_size({matrix.data, n * (n + 1)});
    for (i64 i = 0; i <= n; ++i) order[i] = i;
    for (i64 k = 0; k < n; ++k) {
        auto [row, column] = largest_entry(matrix, k);
        if (std::abs(matrix(row, column)) <= least) {
            rank = k;
            break;
        }
        if (row != k) std::swap_ranges(matrix.row(k).begin(), matrix.row(k).end(), matrix.row(row).begin());
        for (i64 i = 0; i < n; ++i) std::swap(matrix(i, k), matrix(i, column));
        std::swap(order[k], order[column]);
        for (i64 i = 0; i < n; ++i) {
            double factor = matrix(i, k) / matrix(k, k);
            if (i == k || factor == 0.0) continue;
            add_multiple(matrix.row(i).part(k, n + 1), -factor, matrix.row(k).part(k, n + 1));
        }
    }
    x.fill(0.0);
    x[order[rank]] = 1.0;
    for (i64 k = 0; k < rank; ++k) x[order[k]] = -matrix(k, rank) / matrix(k, k);
    double size = largest_size(x);
    for (double& number : x) number /= size;
    return {};
}

// Puts the numbers of the first few entries of `list` with the smallest keys in front, the earlier one of two equals;
// what is not a number comes last.
inline void smallest_first(Span<i64> list, i64 few, In<double> keys) {
    auto key = [keys](i64 i) { return keys[i] == keys[i] ? keys[i] : INFINITE; };
    std::partial_sort(list.begin(), list.begin() + few, list.end(), [key](i64 i, i64 j) {
        return key(i) < key(j) || (key(i) == key(j) && i < j);
    });
}

// Leave weight on no more columns than `system` (m + 1, K) has rows, system @ weights kept, no return lost.
inline Done reduce_support(In<double> returns, Matrix<const double> system, Out<double> weights) {
    i64 size = system.rows, few = size + 1, count = 0;
    REQUIRE(size > 0 && system.columns == weights.size && returns.size == weights.size);
    Buffer<i64> used(weights.size), order(few);
    for (i64 k = 0; used.data != nullptr && k < weights.size; ++k)
        if (weights[k] != 0.0) used[count++] = k;
    if (count <= size) return {};
    Buffer<double> part(size * few), change(few), old(few);
    REQUIRE_MEMORY(used, order, part, change, old);
    while (count > size) {
        // the smallest weights are the first to go, and one column more than equations always leaves a change
        smallest_first({used.data, count}, few, weights);
        for (i64 i = 0; i < size; ++i)
            for (i64 j = 0; j < few; ++j) part[i * few + j] = system(i, used[j]);
        null_vector({part.data, size, few}, order, change);
        double gain = 0.0;
        for (i64 j = 0; j < few; ++j) gain += change[j] * returns[used[j]], old[j] = weights[used[j]];
        if (gain < 0.0)
            for (double& number : change.span()) number = -number;
        double length = longest_step(old, change);
        i64 last = 0;
        for (i64 j = 0; j < few; ++j) {
            old[j] += length * change[j];
            if (std::abs(old[j]) < std::abs(old[last])) last = j;
            weights[used[j]] = old[j] < 0.0 ? 0.0 : old[j];
        }
        weights[used[last]] = 0.0;
        count = std::remove_if(used.data, used.data + count, [&](i64 k) { return weights[k] == 0.0; }) - used.data;
    }
    return {};
}

// What a behaviour with these actions (S,) and this state marginal (S,) is paid by a table (S, A).
template <class Action>
double expected_reward(Matrix<const double> reward, In<Action> actions, In<double> states) {
    REQUIRE(reward.rows == states.size && actions.size == states.size);
    double total = 0.0;
    for (i64 s = 0; s < states.size; ++s) total += states[s] * reward(s, actions[s]);
    return total;
}

// The plans at the prices nearest to `near`, at most so many, the nearest first and the older one of two.
inline Buffer<i64> nearest(Matrix<const double> asked, In<double> near, i64 most) {
    REQUIRE(asked.columns == near.size && most >= 0);
    Buffer<double> distance(asked.rows);
    Buffer<i64> plans(asked.rows);
    REQUIRE_MEMORY(distance, plans);
    for (i64 i = 0; i < plans.size; ++i) {
        plans[i] = i;
        distance[i] = square_distance(asked.row(i), near);
    }
    most = std::min(most, plans.size);
    smallest_first(plans, most, distance);
    plans.shorten(most);
    return plans;
}

// One of Jacobi's rotations: it makes entry (p, q) of a symmetric matrix zero. Eigenvectors gather in the rows of v.
inline void rotate(Matrix<double> a, Matrix<double> v, i64 p, i64 q) {
    double theta = 0.5 * (a(q, q) - a(p, p)) / a(p, q);
    double t = std::copysign(1.0, theta) / (std::abs(theta) + std::sqrt(theta * theta + 1.0));
    double c = 1.0 / std::sqrt(t * t + 1.0), s = t * c;
    auto turn = [c, s](double& x, double& y) {
        double before = x;
        x = c * before - s * y;
        y = s * before + c * y;
    };
    for (i64 k = 0; k < a.rows; ++k) turn(a(k, p), a(k, q));
    for (i64 k = 0; k < a.rows; ++k) turn(a(p, k), a(q, k));
    for (i64 k = 0; k < a.rows; ++k) turn(v(p, k), v(q, k));
    a(p, q) = a(q, p) = 0.0;
}

// Raise all eigenvalues of a symmetric matrix to at least `least`, by Jacobi's method; v is scratch of the same shape.
inline void raise_eigenvalues(Matrix<double> a, double least, Matrix<double> v, Out<double> values) {
    i64 m = a.rows;
    double negligible = 1e-15 * largest_size({a.data, m * m});
    std::fill(v.data, v.data + m * m, 0.0);
    for (i64 i = 0; i < m; ++i) v(i, i) = 1.0;
    bool rotated = true;
    for (int sweep = 0; rotated && sweep < MOST_ROTATIONS; ++sweep) {
        rotated = false;
        for (i64 p = 0; p < m; ++p)
            for (i64 q = p + 1; q < m; ++q)
                if (std::abs(a(p, q)) > negligible) {
                    rotate(a, v, p, q);
                    rotated = true;
                }
    }
    for (i64 i = 0; i < m; ++i) values[i] = std::max(a(i, i), least);
    std::fill(a.data, a.data + m * m, 0.0);
    for (i64 k = 0; k < m; ++k)
        for (i64 i = 0; i < m; ++i) add_multiple(a.row(i), values[k] * v(k, i), v.row(k));
}

// The middle one of some finite numbers, which are reordered; the mean of two.
inline double median(Span<double> x) {
    sort(x);
    return 0.5 * (x[(x.size - 1) / 2] + x[x.size / 2]);
}

// The symmetric positive matrix (m, m) that best explains how slopes rise, each plan by its relative error; not finite
// where there is none.
inline Buffer<double> curvature(Matrix<const double> steps, Matrix<const double> rises, In<double> lengths) {
    i64 n = steps.rows, m = steps.columns;
    REQUIRE(n > 0 && m > 0 && rises.rows == n && rises.columns == m && lengths.size == n);
    auto found = Buffer<double>::table(m, m, 0.0);
    Scratch scratch{Buffer<double>(n + m + m * m)};
    REQUIRE_MEMORY(found, scratch.all);
    auto rates = scratch.take(n), values = scratch.take(m);
    auto square = scratch.take(m, m), right = found.matrix();
    for (i64 i = 0; i < n; ++i) rates[i] = dot<double>(steps.row(i), rises.row(i)) / lengths[i];
    if (!all_finite(rates)) {
        found.span().fill(NOT_A_NUMBER);
        return found;
    }
    double typical = std::max(median(rates), 1e-300);
    std::fill(square.data, square.data + m * m, 0.0);
    for (i64 k = 0; k < n; ++k)
        for (i64 i = 0; i < m; ++i) {
            double weighted = steps(k, i) / lengths[k];
            add_multiple(square.row(i), weighted, steps.row(k));
            add_multiple(right.row(i), weighted, rises.row(k));
        }
    for (i64 i = 0; i < m; ++i) {
        square(i, i) += TYPICAL_WEIGHT;
        right(i, i) += typical * TYPICAL_WEIGHT;
    }
    solve_in_place(square, right);
    for (i64 i = 0; i < m; ++i)
        for (i64 j = 0; j < i; ++j) right(i, j) = right(j, i) = 0.5 * (right(i, j) + right(j, i));
    if (all_finite(found)) raise_eigenvalues(right, LEAST_CURVATURE * typical, square, values);
    return found;
}

// The barriers and worst cases over prices y (m,): `caution` and `floor` (m,) of barriers, group -1; the prices of a
// group add up to its total.
struct Constraints {
    In<double> caution, floor;
    In<i64> group;
    In<double> totals;
};

// Start inside: prices that are positive and add up as they should.
inline void start_inside(const Constraints& on, In<double> start, Out<double> y) {
    double least = 1e-9 * *std::max_element(start.begin(), start.end());
    for (i64 j = 0; j < y.size; ++j) y[j] = start[j] < least ? least : start[j];
    for (i64 g = 0; g < on.totals.size; ++g) {
        double found = 0.0;
        for (i64 j = 0; j < y.size; ++j) found += on.group[j] == g ? y[j] : 0.0;
        for (i64 j = 0; j < y.size; ++j)
            if (on.group[j] == g) y[j] *= on.totals[g] / found;
    }
}

// Minimise  slope (y - centre) + (y - centre) curve (y - centre) / 2 - intercept(y)  by Newton's method from y; whether
// it got there.
inline bool least_bound(const Constraints& on, In<double> centre, In<double> slope, Matrix<const double> curve,
                        Out<double> y) {
    i64 m = y.size, n = m + on.totals.size;
    Scratch scratch{Buffer<double>(m + n + n * n)};
    REQUIRE_MEMORY(scratch.all);
    auto away = scratch.take(m), step = scratch.take(n);
    auto system = scratch.take(n, n);
    double mu = 0.0;
    for (i64 j = 0; j < m; ++j) mu += FIRST_BARRIER / static_cast<double>(m) * std::abs(slope[j]) * y[j];
    double last = LAST_BARRIER * mu;
    for (int round = 0; round < MOST_NEWTON_STEPS; ++round) {
        std::fill(system.data, system.data + n * n, 0.0);
        step.fill(0.0);
        for (i64 j = 0; j < m; ++j) away[j] = y[j] - centre[j];
        for (i64 j = 0; j < m; ++j) {
            i64 g = on.group[j];
            double pull = g < 0 ? on.caution[j] : mu;
            copy(curve.row(j), system.row(j).part(0, m));
            step[j] = -slope[j] - dot<double>(curve.row(j), away) + (pull / y[j] + (g < 0 ? on.floor[j] : 0.0));
            system(j, j) += pull / (y[j] * y[j]);
            if (g >= 0) system(j, m + g) = system(m + g, j) = 1.0;
        }
        solve_in_place(system, {step.data, n, 1});
        double length = std::min(1.0, 0.95 * longest_step(y, step.part(0, m))), largest = 0.0;
        add_multiple(y, length, step.part(0, m));
        for (i64 j = 0; j < m; ++j) largest = std::max(largest, std::abs(step[j] / y[j]));
        if (!all_finite(y)) return false;
        if (largest < NEWTON_PRECISION && (mu <= last || on.totals.size == 0)) return true;
        if (length > 0.5) mu = std::max(BARRIER_FALL * mu, last);
    }
    return false;
}

// The prices (m,) that minimise the bound by the `most` nearest plans, and the mean curvature. A curvature of zero says
// that the plans say too little, or that the prices are `reach` times farther than they.
inline std::tuple<Buffer<double>, double> least_by_plans(Matrix<const double> asked, Matrix<const double> slopes,
                                                         In<double> near, i64 most, double reach, In<double> caution,
                                                         In<double> floor, In<i64> group, In<double> totals) {
    i64 m = near.size, apart = 0;
    REQUIRE(m > 0 && asked.rows > 0 && slopes.rows == asked.rows && slopes.columns == m && asked.columns == m);
    REQUIRE(most > 0 && caution.size == m && floor.size == m && group.size == m && all_within(group, -1, totals.size));
    Buffer<i64> chosen = nearest(asked, near, most);
    Buffer<double> found(m), steps(chosen.size * m), rises(chosen.size * m), lengths(chosen.size);
    REQUIRE_MEMORY(chosen, found, steps, rises, lengths);
    In<double> centre = asked.row(chosen[0]), slope = slopes.row(chosen[0]);
    double farthest = 0.0;
    for (i64 k : chosen.span()) farthest = std::max(farthest, square_distance(asked.row(k), centre));
    for (i64 k : chosen.span()) {
        lengths[apart] = square_distance(asked.row(k), centre);
        if (!(lengths[apart] > 1e-12 * farthest)) continue;
        for (i64 j = 0; j < m; ++j) {
            steps[apart * m + j] = asked(k, j) - centre[j];
            rises[apart * m + j] = slopes(k, j) - slope[j];
        }
        ++apart;
    }
    copy(near, found);
    if (apart == 0) return {std::move(found), 0.0};
    auto curve = curvature({steps.data, apart, m}, {rises.data, apart, m}, {lengths.data, apart});
    Constraints on{caution, floor, group, totals};
    start_inside(on, near, found);
    if (!all_finite(curve) || !least_bound(on, centre, slope, curve.matrix(), found) ||
        square_distance(found, centre) > reach * reach * farthest) {
        copy(near, found);
        return {std::move(found), 0.0};
    }
    double trace = 0.0;
    for (i64 j = 0; j < m; ++j) trace += curve.matrix()(j, j);
    return {std::move(found), trace / static_cast<double>(m)};
}

inline const Kernel kernels[] = {
    kernel<units>("units", "returns features floor group least", "Units of the returns and of each feature."),
    kernel<scaled_columns>("scaled_columns", "returns features chosen unit size group",
                           "Profits and features of the chosen columns in these units."),
    kernel<normalised_prices>("normalised_prices", "prices group totals",
                              "Positive prices, those of a group scaled to its total."),
    kernel<solve_linear>("solve_linear", "matrix right", "Solve in place; a pivot of zero leaves its unknown at zero."),
    kernel<newton_system>("newton_system", "a group own d pull gaps lacks total matrix right",
                          "Matrix and right side for the changes of rows, groups and sum."),
    kernel<central_point>("central_point", "p c a h f group q centre mu_end",
                          "Weights and prices on the central path, and what is still amiss there."),
    kernel<null_vector>("null_vector", "matrix order x", "x with matrix x = 0; matrix and order are used up."),
    kernel<reduce_support>("reduce_support", "returns system weights",
                           "Leave weight on no more columns than the system has rows."),
    kernel<expected_reward<u8>, expected_reward<i32>, expected_reward<i64>>(
        "expected_reward", "reward actions states", "What a behaviour is paid by a table of rewards."),
    kernel<nearest>("nearest", "asked near most", "The plans at the nearest prices, the nearest first."),
    kernel<curvature>("curvature", "steps rises lengths", "The positive matrix that best explains how slopes rise."),
    kernel<least_by_plans>("least_by_plans", "asked slopes near most reach caution floor group totals",
                           "The prices that minimise the bound by the nearest plans, and the mean curvature."),
};

inline const Subject listed =
    subject("restricted_master", "The small problem of column generation by a primal-dual interior point.", kernels);

}  // namespace cautious::restricted_master
