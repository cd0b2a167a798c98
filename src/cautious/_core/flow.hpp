// The flow operator of a model and its adjoint, without building a matrix.
//
// Legend: the rows first[s] .. first[s+1]-1 of the sparse rows P are P(. | s, a) for the pairs of state s;
// B = gamma P - E (pairs, S), where E picks the state of a pair; x (S,), y (pairs,), w (pairs,) weights.
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

// out += mass times one row.
template <class I>
void add_row(const Rows<I>& p, double mass, i64 row, Out<double> out) {
#pragma GCC unroll 4
    for (i64 k = p.first(row), last = p.last(row); k < last; ++k) out[p.indices[k]] += mass * p.data[k];
}

// The pairs of all states: `first` has an entry more than there are states.
template <class I>
bool pairs_fit(In<i64> first, const Rows<I>& p, i64 n_states) {
    return n_states >= 0 && first.size == n_states + 1 && first[0] == 0 && first[n_states] == p.count();
}

// out = B x on all pairs: gamma E[x(s')] - x(s).
template <class I>
Done flow_rows(In<i64> first, Rows<I> p, double gamma, In<double> x, Out<double> out) {
    REQUIRE(pairs_fit(first, p, x.size) && out.size == p.count());
    for (i64 s = 0; s < x.size; ++s)
        for (i64 row = first[s]; row < first[s + 1]; ++row) out[row] = gamma * expectation(p, x, row) - x[s];
    return {};
}

// out = B' y: gamma times what arrives in each state, minus what leaves it.
template <class I>
Done flow_columns(In<i64> first, Rows<I> p, double gamma, In<double> y, Out<double> out) {
    REQUIRE(pairs_fit(first, p, out.size) && y.size == p.count());
    out.fill(0.0);
    for (i64 s = 0; s < out.size; ++s) {
        double leaving = 0.0;
        for (i64 row = first[s]; row < first[s + 1]; ++row) {
            leaving += y[row];
            add_row(p, gamma * y[row], row, out);
        }
        out[s] -= leaving;
    }
    return {};
}

inline const Kernel kernels[] = {
    kernel<flow_rows<i32>, flow_rows<i64>>("flow_rows", "first indptr indices data gamma x out",
                                           "out = B x on all pairs."),
    kernel<flow_columns<i32>, flow_columns<i64>>("flow_columns", "first indptr indices data gamma y out",
                                                 "out = B' y."),
};

inline const Subject listed =
    subject("flow", "The flow operator of a model and its adjoint, without building a matrix.", kernels);

}  // namespace cautious::flow
