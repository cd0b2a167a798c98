// The flow operator of a model and its adjoint, without building a matrix.
//
// Legend: row s*A + a of the sparse rows P is P(. | s, a); B = gamma P - E (S*A, S), where E picks the state of a pair;
// x (S,), y (S*A,), w (S*A,) weights. Pairs of weight zero are skipped.
#pragma once
#include "binding.hpp"

namespace cautious::flow {

// The mean of v over one row.
template <class I>
double expectation(const Rows<I>& p, In<double> v, i64 row) {
    double total = 0.0;
#pragma GCC unroll 4
    for (i64 k = p.first(row), last = p.last(row); k < last; ++k) total += p.data[k] * v[p.indices[k]];
    return total;
}

// out = B x on all pairs: gamma E[x(s')] - x(s).
template <class I>
Done flow_rows(Rows<I> p, double gamma, In<double> x, Out<double> out) {
    i64 n_actions = evenly(out.size, x.size);
    REQUIRE(n_actions > 0 && out.size == p.count());
    for (i64 s = 0, row = 0; s < x.size; ++s)
        for (i64 a = 0; a < n_actions; ++a, ++row) out[row] = gamma * expectation(p, x, row) - x[s];
    return {};
}

// out = B' y: gamma times what arrives in each state, minus what leaves it.
template <class I>
Done flow_columns(Rows<I> p, double gamma, In<double> y, Out<double> out) {
    i64 n_actions = evenly(y.size, out.size);
    REQUIRE(n_actions > 0 && y.size == p.count());
    out.fill(0.0);
    for (i64 s = 0, row = 0; s < out.size; ++s) {
        double leaving = 0.0;
        for (i64 a = 0; a < n_actions; ++a, ++row) {
            double mass = y[row];
            if (mass == 0.0) continue;
            leaving += mass;
            mass *= gamma;
            for (i64 k = p.first(row); k < p.last(row); ++k) out[p.indices[k]] += mass * p.data[k];
        }
        out[s] -= leaving;
    }
    return {};
}

// out = B' diag(w) B x in one pass over the transitions.
template <class I>
void normal_product(const Rows<I>& p, double gamma, In<double> w, In<double> x, Out<double> out) {
    i64 n_actions = w.size / x.size;
    out.fill(0.0);
    for (i64 s = 0, row = 0; s < x.size; ++s) {
        double leaving = 0.0;
        for (i64 a = 0; a < n_actions; ++a, ++row) {
            if (w[row] == 0.0) continue;
            double total = w[row] * (gamma * expectation(p, x, row) - x[s]);
            leaving += total;
            total *= gamma;
            for (i64 k = p.first(row); k < p.last(row); ++k) out[p.indices[k]] += total * p.data[k];
        }
        out[s] -= leaving;
    }
}

// The diagonal of B' diag(w) B.
template <class I>
Done normal_diagonal(Rows<I> p, double gamma, In<double> w, Out<double> out) {
    i64 n_actions = evenly(w.size, out.size);
    REQUIRE(n_actions > 0 && w.size == p.count());
    out.fill(0.0);
    for (i64 row = 0; row < w.size; ++row) {
        double weight = w[row], own = -1.0;
        if (weight == 0.0) continue;
        i64 s = row / n_actions;
        for (i64 k = p.first(row); k < p.last(row); ++k) {
            double carried = gamma * p.data[k];
            if (p.indices[k] == s)
                own += carried;
            else
                out[p.indices[k]] += weight * carried * carried;
        }
        out[s] += weight * own * own;
    }
    return {};
}

inline const Kernel kernels[] = {
    kernel<flow_rows<i32>, flow_rows<i64>>("flow_rows", "indptr indices data gamma x out", "out = B x on all pairs."),
    kernel<flow_columns<i32>, flow_columns<i64>>("flow_columns", "indptr indices data gamma y out", "out = B' y."),
    kernel<normal_diagonal<i32>, normal_diagonal<i64>>("normal_diagonal", "indptr indices data gamma w out",
                                                       "The diagonal of B' diag(w) B."),
};

inline const Subject listed =
    subject("flow", "The flow operator of a model and its adjoint, without building a matrix.", kernels);

}  // namespace cautious::flow
