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
// is the chain of a policy, pieces as in planning.hpp.
#pragma once
#include "entrywise.hpp"
#include "planning.hpp"

namespace cautious::evaluation_acceleration {

using namespace planning;

// corrections that are steps
inline constexpr i64 STEP_CORRECTIONS = 2;
inline constexpr i64 MAX_CORRECTIONS = 8;
// numbers of a vector that are multiplied with those of all others while they are in the cache
inline constexpr i64 CHUNK_STATES = 512;
// passes that reduce the residual at least to this share of it converge soon without corrections along paths
inline constexpr double MAX_FAST_RATIO = 0.9;
// keeps corrections that are nearly multiples of each other from getting large weights of opposite signs
inline constexpr double RIDGE = 1e-10;

inline bool fit_pieces(Out<double> products, i64 m, i64 n_states) {
    return products.size == pieces_of(n_states) * (m + 1) * (m + 2);
}

// The products of all pieces together.
struct Products {
    double at[MAX_CORRECTIONS + 1][MAX_CORRECTIONS + 2] = {};

    Products(In<double> products, i64 m) {
        const double* next = products.data;
        while (next < products.end())
            for (i64 i = 0; i <= m; ++i)
                for (i64 j = 0; j < m + 2; ++j) at[i][j] += *next++;
    }
};

// lanes of sums over a chunk: four registers, so that no addition waits for the one before it
inline constexpr int CHUNK_LANES = 2 * LANES;

// The sum of all numbers, in several lanes at once.
inline double lane_sum(In<double> x) {
    constexpr int N = CHUNK_LANES;
    auto total = Vec<N>::all(0.0);
    i64 even = x.size - x.size % N;
    for (i64 i = 0; i < even; i += N) total = total + Vec<N>::load(x.data + i);
    double rest = 0.0;
    for (i64 i = even; i < x.size; ++i) rest += x[i];
    return total.sum() + rest;
}

// `products` (pieces, 3, 4) of the last two steps as corrections, without writing them down.
inline Done step_products(In<double> v0, In<double> v1, In<double> v2, In<double> v3, Out<double> products, i64 first,
                          i64 last) {
    REQUIRE(v1.size == v0.size && v2.size == v0.size && v3.size == v0.size);
    REQUIRE(fit_pieces(products, STEP_CORRECTIONS, v0.size) && are_pieces(first, last, v0.size));
    for (i64 piece = first; piece < last; ++piece) {
        i64 start = piece * PIECE, size = std::min(PIECE, v0.size - start);
        auto [aa, ab, bb, ar, br, rr, a_sum, b_sum, r_sum] = sums<9>(size, [&](auto v, i64 i) {
            auto one = at(v, v0, start + i), two = at(v, v1, start + i), three = at(v, v2, start + i);
            auto r = at(v, v3, start + i) - three, second = three - two, a = two - one - second, b = second - r;
            return std::array{a * a, a * b, b * b, a * r, b * r, r * r, a, b, r};
        });
        double table[3][4] = {{aa, 0.0, 0.0, a_sum}, {ab, bb, 0.0, b_sum}, {ar, br, rr, r_sum}};
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
    return now < MAX_FAST_RATIO * MAX_FAST_RATIO * before;
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
Done apply_correction(Rows<I> p, double gamma, In<double> g, Out<double> gain, Out<double> y, i64 first, i64 last) {
    REQUIRE(g.size == p.count() && gain.size == g.size && y.size == g.size && are_pieces(first, last, g.size));
    for (i64 s = first * PIECE; s < std::min(last * PIECE, g.size); ++s) {
        gain[s] = gamma * expectation(p, g, s);
        y[s] = g[s] - gain[s];
    }
    return {};
}

// `products` of the corrections in y (m, S) and the residual r (S,).
inline Done correction_products(Matrix<const double> y, In<double> r, Out<double> products, i64 first, i64 last) {
    i64 m = y.rows;
    REQUIRE(y.columns == r.size && y.rows <= MAX_CORRECTIONS);
    REQUIRE(fit_pieces(products, y.rows, r.size) && are_pieces(first, last, r.size));
    for (i64 piece = first; piece < last; ++piece) {
        double* table = products.data + piece * (m + 1) * (m + 2);
        std::fill_n(table, (m + 1) * (m + 2), 0.0);
        i64 end = std::min((piece + 1) * PIECE, r.size);
        for (i64 start = piece * PIECE; start < end; start += CHUNK_STATES) {
            i64 stop = std::min(start + CHUNK_STATES, end);
            auto vector = [=](i64 i) { return (i < m ? y.row(i) : r).part(start, stop); };
            for (i64 i = 0; i <= m; ++i) {
                double* row = table + i * (m + 2);
                for (i64 j = 0; j <= i; ++j) row[j] += dot<CHUNK_LANES>(vector(i), vector(j));
                row[m + 1] += lane_sum(vector(i));
            }
        }
    }
    return {};
}

// Solves a c = right by elimination; both are overwritten. A row that adds nothing to those before it gets weight zero.
inline void solve_ridge(i64 m, double (&a)[MAX_CORRECTIONS][MAX_CORRECTIONS], double* c) {
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
    REQUIRE(0 <= m && m <= MAX_CORRECTIONS && n_states > 0 && products.size % ((m + 1) * (m + 2)) == 0);
    Buffer<double> c(m, 0.0);
    REQUIRE_MEMORY(c);
    auto [at] = Products(products, m);
    for (i64 i = 0; i <= m; ++i)
        for (i64 j = 0; j <= i; ++j) at[i][j] -= at[i][m + 1] * at[j][m + 1] / static_cast<double>(n_states);
    double scale[MAX_CORRECTIONS] = {}, a[MAX_CORRECTIONS][MAX_CORRECTIONS] = {};
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

inline const Kernel kernels[] = {
    kernel<step_products>("step_products", "v0 v1 v2 v3 products first last",
                          "Inner products of the last two steps as corrections, piece by piece."),
    kernel<passes_suffice>("passes_suffice", "products n_states",
                           "Whether corrections along paths are not worth their time."),
    kernel<add_steps>("add_steps", "v1 v2 v3 c first last", "Adds the last two steps, with their weights, to v3."),
    kernel<tabulate_steps>("tabulate_steps", "v0 v1 v2 v3 products gain y first last",
                           "Writes the step corrections into the tables; v1 becomes the residual."),
    kernel<apply_correction<i32>, apply_correction<i64>>(
        "apply_correction", "indptr indices data gamma g gain y first last",
        "gain = gamma P g and y = g - gain of one correction."),
    kernel<correction_products>("correction_products", "y r products first last",
                                "Inner products of all corrections, piece by piece."),
    kernel<best_weights>("best_weights", "products m n_states",
                         "The weights of the corrections that leave the residual of the least variance."),
    kernel<add_corrections>("add_corrections", "v gain c first last",
                            "Adds the corrections, with their weights, to v."),
};

inline const Constant constants[] = {{"STEP_CORRECTIONS", STEP_CORRECTIONS}};

inline const Subject listed =
    subject("evaluation_acceleration", "The best combination of a few corrections after evaluation passes.", kernels,
            constants);

}  // namespace cautious::evaluation_acceleration
