// Faster policy evaluation: after a few passes over the chain, the best combination of a few corrections is added.
//
// Values v with the residual r = b + gamma P v - v lack the solution z of  z - gamma P z = r.  A correction g, an
// approximation of z, with some weight c leaves the residual r - c (g - gamma P g). Of all combinations of the
// corrections the one is taken whose residual has the least variance over the states; a constant does not count,
// because bounds are shifted to their middle anyway. The corrections are
//
// * the last two steps. Iterates may alternate, as in a model whose states fall into two classes that lead to each
//   other; or the chain may have regions that are left late or never, each wrong by a constant of its own;
// * the sum of r along likely paths (likely_moves.hpp), then the same for what the residual is after that correction,
//   and so on: the error of the simplified model grows with the length of a path, and passes reduce it by one step
//   each.
//
// Nothing is proved here: bounds are measured by the next Bellman sweep.
//
// Legend: v0, ..., v3 (S,) four iterates, one pass after the other; m corrections g; `gain` (m, S) holds gamma P g; y
// (m, S) holds g - gamma P g, which a correction takes off the residual; `products` (pieces, m+1, m+2) the inner
// products of all y and r with each other, below the diagonal, and their sums in the last column; c (m,) the weights. P
// is the chain of a policy, `lengths` and pieces as in planning.hpp.
#pragma once
#include "likely_moves.hpp"
#include "trailing_passes.hpp"
#include "vec.hpp"

namespace cautious {

// corrections that are steps, and those along likely paths
inline constexpr i64 STEP_CORRECTIONS = 2, PATH_CORRECTIONS = 3;
inline constexpr i64 MOST_CORRECTIONS = 8;
// numbers of a vector that are multiplied with those of all others while they are in the cache
inline constexpr i64 CHUNK = 512;
// passes that leave less than this share of the residual converge soon without corrections along paths
inline constexpr double FAST_SHARE = 0.9;
// keeps corrections that are nearly multiples of each other from getting large weights of opposite signs
inline constexpr double RIDGE = 1e-10;

inline bool fit_pieces(Out<double> products, i64 m, i64 n_states) {
    return products.size == pieces_of(n_states) * (m + 1) * (m + 2);
}

// The products of all pieces together.
struct Products {
    double at[MOST_CORRECTIONS + 1][MOST_CORRECTIONS + 2] = {};

    Products(In<double> products, i64 m) {
        const double* next = products.data;
        while (next < products.end())
            for (i64 i = 0; i <= m; ++i)
                for (i64 j = 0; j < m + 2; ++j) at[i][j] += *next++;
    }
};

// Calls work(vector type, place) for the places from `first` on in steps of a vector, and of one number at the end.
template <class Work>
void by_lanes(i64 first, i64 last, Work work) {
    constexpr int N = LANES<double>;
    for (; first + N <= last; first += N) work(Vec<double, N>{}, first);
    for (; first < last; ++first) work(Vec<double, 1>{}, first);
}

// lanes of sums over a chunk: four registers, so that no addition waits for the one before it
inline constexpr int CHUNK_LANES = 2 * LANES<double>;

// The sum of all numbers, in several lanes at once.
inline double lane_sum(In<double> x) {
    constexpr int N = CHUNK_LANES;
    auto total = Vec<double, N>::all(0.0);
    i64 even = x.size - x.size % N;
    for (i64 i = 0; i < even; i += N) total = total + Vec<double, N>::load(x.data + i);
    double rest = 0.0;
    for (i64 i = even; i < x.size; ++i) rest += x[i];
    return total.sum() + rest;
}

// The sums that make up the products of two step corrections a, b and the residual r.
template <class V>
struct StepSums {
    V aa, ab, bb, ar, br, rr, a_sum, b_sum, r_sum;

    void add(V v0, V v1, V v2, V v3) {
        V second = v2 - v1, r = v3 - v2, a = v1 - v0 - second, b = second - r;
        aa = multiply_add(a, a, aa);
        ab = multiply_add(a, b, ab);
        bb = multiply_add(b, b, bb);
        ar = multiply_add(a, r, ar);
        br = multiply_add(b, r, br);
        rr = multiply_add(r, r, rr);
        a_sum = a_sum + a;
        b_sum = b_sum + b;
        r_sum = r_sum + r;
    }
};

// `products` (pieces, 3, 4) of the last two steps as corrections, without writing them down.
inline Done step_products(In<double> v0, In<double> v1, In<double> v2, In<double> v3, Out<double> products, i64 first,
                          i64 last) {
    REQUIRE(v1.size == v0.size && v2.size == v0.size && v3.size == v0.size);
    REQUIRE(fit_pieces(products, STEP_CORRECTIONS, v0.size) && are_pieces(first, last, v0.size));
    constexpr int N = REGISTER_BYTES / sizeof(double);
    using V = Vec<double, N>;
    for (i64 piece = first; piece < last; ++piece) {
        V zero = V::all(0.0);
        StepSums<V> sums{zero, zero, zero, zero, zero, zero, zero, zero, zero};
        i64 s = piece * PIECE, end = std::min(s + PIECE, v0.size);
        for (; s + N <= end; s += N)
            sums.add(V::load(&v0[s]), V::load(&v1[s]), V::load(&v2[s]), V::load(&v3[s]));
        double rest[4][N] = {};
        i64 k = 0;
        for (In<double> v : {v0, v1, v2, v3}) std::copy(v.begin() + s, v.begin() + end, rest[k++]);
        sums.add(V::load(rest[0]), V::load(rest[1]), V::load(rest[2]), V::load(rest[3]));
        double table[3][4] = {{sums.aa.sum(), 0.0, 0.0, sums.a_sum.sum()},
                              {sums.ab.sum(), sums.bb.sum(), 0.0, sums.b_sum.sum()},
                              {sums.ar.sum(), sums.br.sum(), sums.rr.sum(), sums.r_sum.sum()}};
        std::memcpy(&products[piece * 12], table, sizeof(table));
    }
    return {};
}

// Whether a pass leaves so little of the residual that corrections along paths are not worth their time; from the
// products of the step corrections.
inline bool passes_suffice(In<double> products, i64 n_states) {
    REQUIRE(n_states > 0 && products.size % 12 == 0);
    auto all = Products(products, STEP_CORRECTIONS);
    double n = static_cast<double>(n_states), sum = all.at[2][3], sum_before = all.at[1][3] + sum;
    double now = all.at[2][2] - sum * sum / n;
    double before = all.at[1][1] + 2.0 * all.at[2][1] + all.at[2][2] - sum_before * sum_before / n;
    return now < FAST_SHARE * FAST_SHARE * before;
}

// Adds the last two steps, with their weights, to v3 (S,).
inline Done add_steps(In<double> v1, In<double> v2, Out<double> v3, In<double> c, i64 first, i64 last) {
    REQUIRE(v1.size == v3.size && v2.size == v3.size && c.size == STEP_CORRECTIONS);
    REQUIRE(are_pieces(first, last, v3.size));
    double c0 = c[0], c1 = c[1];
    by_lanes(first * PIECE, std::min(last * PIECE, v3.size), [=]<class V>(V, i64 s) {
        V a = V::load(&v1[s]), b = V::load(&v2[s]), d = V::load(&v3[s]);
        (d + (V::all(c0) * (b - a) + V::all(c1) * (d - b))).store(&v3[s]);
    });
    return {};
}

// The first two corrections in the tables: the last two steps, given their products. v1 becomes r, the residual of v2
// except for a constant.
inline Done tabulate_steps(In<double> v0, Out<double> v1, In<double> v2, In<double> v3, In<double> products,
                           Matrix<double> gain, Matrix<double> y, i64 first, i64 last) {
    REQUIRE(v1.size == v0.size && v2.size == v0.size && v3.size == v0.size && products.size % 12 == 0);
    REQUIRE(gain.rows >= STEP_CORRECTIONS && gain.columns == v0.size && are_pieces(first, last, v0.size));
    REQUIRE(y.rows >= STEP_CORRECTIONS && y.columns == v0.size);
    double mean = Products(products, STEP_CORRECTIONS).at[2][3] / static_cast<double>(v0.size);
    auto gain0 = gain.row(0), gain1 = gain.row(1), y0 = y.row(0), y1 = y.row(1);
    by_lanes(first * PIECE, std::min(last * PIECE, v0.size), [=]<class V>(V, i64 s) {
        V a = V::load(&v0[s]), b = V::load(&v1[s]), c = V::load(&v2[s]), d = V::load(&v3[s]);
        V one = b - a, two = c - b, three = d - c;
        two.store(&gain0[s]);
        (one - two).store(&y0[s]);
        three.store(&gain1[s]);
        (two - three).store(&y1[s]);
        (three - V::all(mean)).store(&v1[s]);
    });
    return {};
}

// `gain` and y (S,) of one correction g (S,).
template <class I>
Done apply_correction(Rows<I> p, In<i64> lengths, double gamma, In<double> g, Out<double> gain, Out<double> y,
                      i64 first, i64 last) {
    REQUIRE(g.size == p.count() && gain.size == g.size && y.size == g.size && lengths.size == blocks_of(g.size));
    REQUIRE(are_pieces(first, last, g.size));
    for (i64 block = first * BLOCKS_PER_PIECE; block < std::min(last * BLOCKS_PER_PIECE, lengths.size); ++block)
        means(p, lengths[block], g, block * BLOCK, std::min((block + 1) * BLOCK, g.size), [=](i64 s, double mean) {
            double next = gamma * mean;
            gain[s] = next;
            y[s] = g[s] - next;
        });
    return {};
}

// `products` of the corrections in y (m, S) and the residual r (S,).
inline Done correction_products(Matrix<const double> y, In<double> r, Out<double> products, i64 first, i64 last) {
    i64 m = y.rows;
    REQUIRE(y.columns == r.size && y.rows <= MOST_CORRECTIONS);
    REQUIRE(fit_pieces(products, y.rows, r.size) && are_pieces(first, last, r.size));
    for (i64 piece = first; piece < last; ++piece) {
        double* table = products.data + piece * (m + 1) * (m + 2);
        std::fill_n(table, (m + 1) * (m + 2), 0.0);
        i64 end = std::min((piece + 1) * PIECE, r.size);
        for (i64 start = piece * PIECE; start < end; start += CHUNK) {
            i64 stop = std::min(start + CHUNK, end);
            auto vector = [=](i64 i) { return (i < m ? y.row(i) : r).part(start, stop); };
            for (i64 i = 0; i <= m; ++i) {
                double* row = table + i * (m + 2);
                for (i64 j = 0; j <= i; ++j) row[j] += dot<double, CHUNK_LANES>(vector(i), vector(j));
                row[m + 1] += lane_sum(vector(i));
            }
        }
    }
    return {};
}

// Solves a c = right by elimination; both are overwritten. A row that adds nothing to those before it gets weight zero.
inline void solve_ridge(i64 m, double (&a)[MOST_CORRECTIONS][MOST_CORRECTIONS], double* c) {
    for (i64 i = 0; i < m; ++i) {
        if (a[i][i] < RIDGE) {
            for (i64 k = 0; k < m; ++k) a[i][k] = a[k][i] = 0.0;
            a[i][i] = 1.0;
            c[i] = 0.0;
        }
        for (i64 k = i + 1; k < m; ++k) {
            double share = a[k][i] / a[i][i];
            for (i64 j = 0; j < m; ++j) a[k][j] -= share * a[i][j];
            c[k] -= share * c[i];
        }
    }
    for (i64 i = m - 1; i >= 0; --i) {
        for (i64 k = i + 1; k < m; ++k) c[i] -= a[i][k] * c[k];
        c[i] /= a[i][i];
    }
}

// The weights (m,) of the corrections that leave the residual of the least variance.
inline Buffer<double> best_weights(In<double> products, i64 m, i64 n_states) {
    REQUIRE(0 <= m && m <= MOST_CORRECTIONS && n_states > 0 && products.size % ((m + 1) * (m + 2)) == 0);
    Buffer<double> c(m, 0.0);
    REQUIRE_MEMORY(c);
    auto [at] = Products(products, m);
    for (i64 i = 0; i <= m; ++i)
        for (i64 j = 0; j <= i; ++j) at[i][j] -= at[i][m + 1] * at[j][m + 1] / static_cast<double>(n_states);
    double scale[MOST_CORRECTIONS] = {}, a[MOST_CORRECTIONS][MOST_CORRECTIONS] = {};
    for (i64 i = 0; i < m; ++i) {
        // zero and infinity are of no use, nor is what is not a number
        if (1e-300 < at[i][i] && at[i][i] < 1e300) scale[i] = 1.0 / std::sqrt(at[i][i]);
        a[i][i] = 1.0 + RIDGE;
        if (scale[i] == 0.0) continue;
        c[i] = at[m][i] * scale[i];
        for (i64 j = 0; j < i; ++j)
            if (scale[j] > 0.0) a[i][j] = a[j][i] = at[i][j] * scale[i] * scale[j];
    }
    solve_ridge(m, a, c.data);
    bool finite = true;
    for (i64 i = 0; i < m; ++i) {
        c[i] *= scale[i];
        finite = finite && std::isfinite(c[i]);
    }
    if (!finite) c.span().fill(0.0);
    return c;
}

// Adds the corrections, one pass later, with their weights to v (S,).
inline Done add_corrections(Out<double> v, Matrix<const double> gain, In<double> c, i64 first, i64 last) {
    REQUIRE(gain.rows == c.size && gain.columns == v.size && are_pieces(first, last, v.size));
    by_lanes(first * PIECE, std::min(last * PIECE, v.size), [=]<class V>(V, i64 s) {
        V total = V::load(&v[s]);
        for (i64 i = 0; i < c.size; ++i) total = total + V::all(c[i]) * V::load(&gain(i, s));
        total.store(&v[s]);
    });
    return {};
}

// v <- b + gamma P v applied `passes` times, at least four, and the best combination of the corrections. The result is
// row (passes + 3) % 4 of `iterates` (4, S); v is left as it is. `gain` and y are workspace; without rows in them, only
// the steps are combined, and the likely moves may be empty.
template <class I, class J>
Done accelerated_passes(Rows<I> p, In<i64> lengths, In<double> b, double gamma, In<double> v, i64 passes, In<i64> ahead,
                        In<i64> behind, In<J> target, In<double> weight, In<J> order, In<bool> closes,
                        Matrix<double> iterates, Matrix<double> gain, Matrix<double> y) {
    i64 n_states = v.size, pieces = pieces_of(n_states), m = y.rows;
    REQUIRE(passes >= KEPT && v.size > 0 && gain.rows == y.rows && y.rows <= MOST_CORRECTIONS);
    REQUIRE(y.rows == 0 || (y.rows >= STEP_CORRECTIONS && gain.columns == v.size && y.columns == v.size));
    REQUIRE(y.rows == 0 || (target.size == v.size && weight.size == v.size));
    REQUIRE(y.rows == 0 || (order.size == v.size && closes.size == v.size));
    trailing_passes(p, lengths, b, gamma, v, passes, ahead, behind, iterates);
    if (failure.fault != Fault::none) return {};
    auto v0 = iterates.row(passes % 4), v1 = iterates.row((passes + 1) % 4), v2 = iterates.row((passes + 2) % 4);
    auto v3 = iterates.row((passes + 3) % 4);
    Buffer<double> steps(pieces * 12), products(pieces * (m + 1) * (m + 2));
    REQUIRE_MEMORY(steps, products);
    step_products(v0, v1, v2, v3, steps, 0, pieces);
    if (m == 0 || passes_suffice(steps, n_states)) {
        auto c = best_weights(steps, STEP_CORRECTIONS, n_states);
        return add_steps(v1, v2, v3, c, 0, pieces);
    }
    tabulate_steps(v0, v1, v2, v3, steps, gain, y, 0, pieces);
    for (i64 i = STEP_CORRECTIONS; i < m; ++i) {
        add_up<J>(target, weight, order, closes, gamma, i == STEP_CORRECTIONS ? v1 : y.row(i - 1), v0);
        apply_correction<I>(p, lengths, gamma, v0, gain.row(i), y.row(i), 0, pieces);
    }
    correction_products(y, v1, products, 0, pieces);
    auto c = best_weights(products, m, n_states);
    return add_corrections(v3, gain, c, 0, pieces);
}

inline const Kernel evaluation_acceleration_kernels[] = {
    kernel<step_products>("step_products", "v0 v1 v2 v3 products first last",
                          "Inner products of the last two steps as corrections, piece by piece."),
    kernel<passes_suffice>("passes_suffice", "products n_states",
                           "Whether corrections along paths are not worth their time."),
    kernel<add_steps>("add_steps", "v1 v2 v3 c first last", "Adds the last two steps, with their weights, to v3."),
    kernel<tabulate_steps>("tabulate_steps", "v0 v1 v2 v3 products gain y first last",
                           "Writes the step corrections into the tables; v1 becomes the residual."),
    kernel<apply_correction<i32>, apply_correction<i64>>(
        "apply_correction", "indptr indices data lengths gamma g gain y first last",
        "gain = gamma P g and y = g - gain of one correction."),
    kernel<correction_products>("correction_products", "y r products first last",
                                "Inner products of all corrections, piece by piece."),
    kernel<best_weights>("best_weights", "products m n_states",
                         "The weights of the corrections that leave the residual of the least variance."),
    kernel<add_corrections>("add_corrections", "v gain c first last",
                            "Adds the corrections, with their weights, to v."),
    kernel<accelerated_passes<i32, i32>, accelerated_passes<i32, i64>, accelerated_passes<i64, i32>,
           accelerated_passes<i64, i64>>(
        "accelerated_passes",
        "indptr indices data lengths b gamma v passes ahead behind target weight order closes iterates gain y",
        "Evaluation passes and the best combination of corrections, into a row of `iterates`."),
};

inline const Constant evaluation_acceleration_constants[] = {{"STEP_CORRECTIONS", STEP_CORRECTIONS},
                                                             {"PATH_CORRECTIONS", PATH_CORRECTIONS}};

}  // namespace cautious
