// The parts of a dense interior point whose work grows with a table: one pass each.
//
// Legend: `amount` (m, n) >= 0 with `slack` (m, n) >= 0, both also for directions (`d_amount`, `d_slack`); `cost` (m,
// n), `f` (m,) and `g` (n,) with changes `df`, `dg`. The dual equation is  slack = cost + f - g;  the product amount
// * slack is to become `mu` minus the product of the changes expected. B is a sparse matrix by rows. Sums over a row
// are added one by one, those over columns side by side.
#pragma once
#include "binding.hpp"
#include "vec.hpp"

namespace cautious::dense_transport {

template <class... T>
bool same_shape(i64 rows, i64 columns, const Matrix<T>&... tables) {
    return ((tables.rows == rows && tables.columns == columns) && ...);
}

// Adds up the numbers of `part` one by one.
template <int N>
double add_each(double total, Vec<N> part) {
    double numbers[N];
    part.store(numbers);
    for (double x : numbers) total += x;
    return total;
}

// weight = amount / slack, and its sums over rows (m,) and columns (n,).
inline Done weights(Matrix<const double> amount, Matrix<const double> slack, Matrix<double> weight, Out<double> rows,
                    Out<double> columns) {
    REQUIRE(same_shape(rows.size, columns.size, amount, slack) && same_shape(rows.size, columns.size, weight));
    columns.fill(0.0);
    for (i64 i = 0; i < rows.size; ++i) {
        const double *x = amount.row(i).data, *z = slack.row(i).data;
        double *w = weight.row(i).data, *sums = columns.data, total = 0.0;
        by_lanes(0, columns.size, [&]<class V>(V, i64 j) {
            V ratio = V::load(x + j) / V::load(z + j);
            ratio.store(w + j);
            (V::load(sums + j) + ratio).store(sums + j);
            total = add_each(total, ratio);
        });
        rows[i] = total;
    }
    return {};
}

// Sums over rows and columns of how much too large the amounts would be if f and g did not change.
inline Done excess(Matrix<const double> cost, In<double> f, In<double> g, Matrix<const double> amount,
                   Matrix<const double> slack, Matrix<const double> d_amount, Matrix<const double> d_slack, double mu,
                   Out<double> rows, Out<double> columns) {
    REQUIRE(same_shape(f.size, g.size, cost, amount, slack, d_amount, d_slack));
    REQUIRE(rows.size == f.size && columns.size == g.size);
    columns.fill(0.0);
    for (i64 i = 0; i < f.size; ++i) {
        const double *c = cost.row(i).data, *x = amount.row(i).data, *z = slack.row(i).data;
        const double *dx = d_amount.row(i).data, *dz = d_slack.row(i).data;
        double *sums = columns.data, own = f[i], total = 0.0;
        by_lanes(0, g.size, [&]<class V>(V, i64 j) {
            V here = V::load(x + j), there = V::load(z + j);
            V missing = V::load(c + j) + V::all(own) - V::load(g.data + j) - there;
            V wanted = V::all(mu) - here * there - V::load(dx + j) * V::load(dz + j);
            V over = (here * missing - wanted) / there;
            (V::load(sums + j) + over).store(sums + j);
            total = add_each(total, over);
        });
        rows[i] = total;
    }
    return {};
}

// The largest part, at most `most`, of the changes that keeps all numbers of a row non-negative. Comparisons of
// products are cheaper than divisions, which are hardly ever needed.
inline double longest_step(In<double> x, In<double> change, double most) {
    using V = Vec<LANES>;
    i64 j = 0;
    auto beyond = V::all(0.0);
    for (; j + LANES <= x.size; j += LANES)
        beyond = larger(V::all(-most) * V::load(change.data + j) - V::load(x.data + j), beyond);
    for (j = beyond.largest() > 0.0 ? 0 : j; j < x.size; ++j)
        if (-change[j] * most > x[j]) most = -x[j] / change[j];
    return most;
}

// Overwrite the changes by those that go with df and dg; how far amounts and slacks can follow them, at most 1.
inline std::tuple<double, double> changes(Matrix<const double> cost, In<double> f, In<double> g,
                                          Matrix<const double> amount, Matrix<const double> slack,
                                          Matrix<double> d_amount, Matrix<double> d_slack, double mu, In<double> df,
                                          In<double> dg) {
    REQUIRE(same_shape(f.size, g.size, cost, amount, slack) && same_shape(f.size, g.size, d_amount, d_slack));
    REQUIRE(df.size == f.size && dg.size == g.size);
    double most_amount = 1.0, most_slack = 1.0;
    for (i64 i = 0; i < f.size; ++i) {
        const double *c = cost.row(i).data, *x = amount.row(i).data, *z = slack.row(i).data;
        double *dx = d_amount.row(i).data, *dz = d_slack.row(i).data, own = f[i], d_own = df[i];
        by_lanes(0, g.size, [&]<class V>(V, i64 j) {
            V here = V::load(x + j), there = V::load(z + j);
            V wanted = V::all(mu) - here * there - V::load(dx + j) * V::load(dz + j);
            V up = V::load(c + j) + V::all(own) - V::load(g.data + j) - there + V::all(d_own) - V::load(dg.data + j);
            ((wanted - here * up) / there).store(dx + j);
            up.store(dz + j);
        });
        most_amount = longest_step(amount.row(i), d_amount.row(i), most_amount);
        most_slack = longest_step(slack.row(i), d_slack.row(i), most_slack);
    }
    return {most_amount, most_slack};
}

// out += B' diag(w) B.
template <class I>
Done add_normal_matrix(Rows<I> b, In<double> w, Matrix<double> out) {
    REQUIRE(w.size == b.count() && out.rows == out.columns);
    for (i64 row = 0; row < w.size; ++row)
        for (i64 k = b.first(row); k < b.last(row); ++k) {
            double part = w[row] * b.data[k];
            double* to = out.row(b.indices[k]).data;
            for (i64 other = b.first(row); other < b.last(row); ++other) to[b.indices[other]] += part * b.data[other];
        }
    return {};
}

inline const Kernel kernels[] = {
    kernel<weights>("weights", "amount slack weight rows columns",
                    "weight = amount / slack, and its sums over rows and columns."),
    kernel<excess>("excess", "cost f g amount slack d_amount d_slack mu rows columns",
                   "Sums of how much too large the amounts would be if f and g did not change."),
    kernel<changes>("changes", "cost f g amount slack d_amount d_slack mu df dg",
                    "Set the changes that go with df and dg; how far amounts and slacks can follow them."),
    kernel<add_normal_matrix<i32>, add_normal_matrix<i64>>("add_normal_matrix", "indptr indices data w out",
                                                           "out += B' diag(w) B."),
};

inline const Subject listed =
    subject("dense_transport", "The parts of a dense interior point whose work grows with a table.", kernels);

}  // namespace cautious::dense_transport
