// The flow operator state by state, and its normal matrix, for methods that eliminate the pairs of each state.
//
// Legend: pairs pair_start[s] to pair_start[s + 1] belong to state s. Their rows of B = gamma P - E live on the
// unknowns members[start[s]] to members[start[s + 1]], the state itself and its successors. These rows are stored
// densely, one after the other, from coefficient_start[s] on; `coefficients` ends with SPARE numbers that are read,
// but not used. `softness` D (pairs,) and `coupling` h (states,) are the Hessian diag(D^-1) + h 1 1' of each state; its
// inverse is W.
//
// Vectors hold the numbers of four members. At the end of a row they reach into the next one, and what they hold of it
// is multiplied by zero or dropped.
#pragma once
#include "binding.hpp"
#include "vec.hpp"

namespace cautious::interior_blocks {

using Four = Vec<4>;
inline constexpr i64 SPARE = 3;
// how far ahead coefficients are asked for: loops over states read more arrays at once than processors look ahead in
inline constexpr i64 AHEAD = 1024, LINE = 8;

// The pairs of one state.
struct Block {
    i64 pair, pairs, size;
    const i64* members;
    const double* rows;
};

struct Blocks {
    In<i64> pair_start, start, coefficient_start, members;
    In<double> coefficients;

    i64 n_states() const { return start.size - 1; }
    i64 n_pairs() const { return pair_start[n_states()]; }
    // Whether all blocks lie within the arrays, if the arrays of places increase.
    bool fit() const {
        return start.size > 0 && pair_start.size == start.size && coefficient_start.size == start.size &&
               pair_start[0] == 0 && start[0] == 0 && coefficient_start[0] == 0 && n_pairs() >= 0 &&
               start[n_states()] >= 0 && members.size >= start[n_states()] && coefficient_start[n_states()] >= 0 &&
               coefficients.size >= coefficient_start[n_states()] + SPARE;
    }
    Block operator[](i64 s) const {
        const double* rows = coefficients.data + coefficient_start[s];
        for (i64 line = 0; line < 3; ++line) fetch(rows + AHEAD + line * LINE);
        i64 pairs = pair_start[s + 1] - pair_start[s], size = start[s + 1] - start[s];
        return {pair_start[s], pairs, size, members.data + start[s], rows};
    }
};

template <class V>
V vector_of(double a, double b, double c, double d) {
    using P = typename V::P;
    V made;
    if constexpr (V::PARTS == 1)
        made.part[0] = P{a, b, c, d};
    else
        made.part[0] = P{a, b}, made.part[1] = P{c, d};
    return made;
}

// The values of up to four members, zeros after them.
inline Four values_of(const double* x, const i64* members, i64 count) {
    double first = x[members[0]], second = count > 1 ? x[members[1]] : 0.0;
    return vector_of<Four>(first, second, count > 2 ? x[members[2]] : 0.0, count > 3 ? x[members[3]] : 0.0);
}

// Calls a function with the number of pairs of a state: as a constant where it is small, so that loops over pairs
// are written out.
template <class F>
[[gnu::always_inline]] inline void with_pairs(i64 pairs, F function) {
    switch (pairs) {
        case 2: return function(std::integral_constant<i64, 2>{});
        case 3: return function(std::integral_constant<i64, 3>{});
        case 4: return function(std::integral_constant<i64, 4>{});
        case 5: return function(std::integral_constant<i64, 5>{});
        default: return function(pairs);
    }
}

// Up to four numbers, zeros after them.
[[gnu::always_inline]] inline Four some(const double* from, i64 count) {
    if (count > 3) return Four::load(from);
    return vector_of<Four>(from[0], count > 1 ? from[1] : 0.0, count > 2 ? from[2] : 0.0, 0.0);
}
[[gnu::always_inline]] inline void store_some(Four numbers, double* to, i64 count) {
    if (count > 3) return numbers.store(to);
    to[0] = numbers[0];
    if (count > 1) to[1] = numbers[1];
    if (count > 2) to[2] = numbers[2];
}

// B x on up to four pairs of a state, whose rows these are.
[[gnu::always_inline]] inline Four times_rows(const Block& b, const double* rows, i64 count, const double* x) {
    Four zero = Four::all(0.0), first = zero, second = zero, third = zero, fourth = zero;
    for (i64 e = 0; e < b.size; e += 4) {
        Four held = values_of(x, b.members + e, b.size - e);
        first = multiply_add(Four::load(rows + e), held, first);
        if (count > 1) second = multiply_add(Four::load(rows + b.size + e), held, second);
        if (count > 2) third = multiply_add(Four::load(rows + 2 * b.size + e), held, third);
        if (count > 3) fourth = multiply_add(Four::load(rows + 3 * b.size + e), held, fourth);
    }
    return sums_of(first, second, third, fourth);
}

// values[places] += numbers, the first `count` of them.
template <class I>
[[gnu::always_inline]] inline void add_at(double* values, const I* places, Four numbers, i64 count) {
    values[places[0]] += numbers[0];
    if (count > 1) values[places[1]] += numbers[1];
    if (count > 2) values[places[2]] += numbers[2];
    if (count > 3) values[places[3]] += numbers[3];
}

// missing -= B' y for the n pairs of a state.
[[gnu::always_inline]] inline void subtract_columns(auto n, const Block& b, const double* y, double* missing) {
    for (i64 e = 0; e < b.size; e += 4) {
        // two sums, so that one need not wait for the other
        Four even = Four::all(0.0), odd = Four::all(0.0);
        i64 c = 0;
        for (; c + 1 < n; c += 2) {
            even = subtract_product(even, Four::load(b.rows + c * b.size + e), Four::all(y[c]));
            odd = subtract_product(odd, Four::load(b.rows + (c + 1) * b.size + e), Four::all(y[c + 1]));
        }
        if (c < n) even = subtract_product(even, Four::load(b.rows + c * b.size + e), Four::all(y[c]));
        add_at(missing, b.members + e, even + odd, b.size - e);
    }
}

// sums (S,) over the pairs of each state,  missing -= B' y.
inline Done backward(In<i64> pair_start, In<i64> start, In<i64> coefficient_start, In<i64> members,
                     In<double> coefficients, In<double> y, Out<double> sums, Out<double> missing) {
    Blocks blocks{pair_start, start, coefficient_start, members, coefficients};
    REQUIRE(blocks.fit());
    REQUIRE(y.size == blocks.n_pairs() && sums.size == blocks.n_states() && missing.size >= blocks.n_states());
    for (i64 s = 0; s < sums.size; ++s) {
        Block b = blocks[s];
        with_pairs(b.pairs, [&](auto n) __attribute__((always_inline)) {
            double sum = 0.0;
            for (i64 c = 0; c < n; ++c) sum += y[b.pair + c];
            sums[s] = sum;
            subtract_columns(n, b, y.data + b.pair, missing.data);
        });
    }
    return {};
}

// out = W (push + lift + B x),  shift (S,) = coupling times its sums,  missing -= B' out: one pass over the pairs.
//
// `lift` (S,) is the same for all pairs of a state. An empty x stands for zeros; an empty `missing` is left alone.
inline Done respond(In<i64> pair_start, In<i64> start, In<i64> coefficient_start, In<i64> members,
                    In<double> coefficients, In<double> softness, In<double> coupling, In<double> push,
                    In<double> lift, In<double> x, Out<double> out, Out<double> shift, Out<double> missing) {
    Blocks blocks{pair_start, start, coefficient_start, members, coefficients};
    REQUIRE(blocks.fit());
    i64 n_states = blocks.n_states(), n_pairs = blocks.n_pairs();
    REQUIRE(softness.size == n_pairs && push.size == n_pairs && out.size == n_pairs);
    REQUIRE(coupling.size == n_states && lift.size == n_states && shift.size == n_states);
    REQUIRE((x.size == 0 || x.size >= n_states) && (missing.size == 0 || missing.size >= n_states));
    for (i64 s = 0; s < n_states; ++s) {
        Block b = blocks[s];
        const double *soft = softness.data + b.pair, *given = push.data + b.pair;
        with_pairs(b.pairs, [&](auto n) __attribute__((always_inline)) {
            Four mass = Four::all(0.0), paid = mass, lifted = Four::all(lift[s]);
            double* own = out.data + b.pair;
            for (i64 c = 0; c < n; c += 4) {
                Four weights = some(soft + c, n - c), sum = some(given + c, n - c) + lifted;
                if (x.size > 0) sum = sum + times_rows(b, b.rows + c * b.size, n - c, x.data);
                mass = mass + weights;
                paid = multiply_add(weights, sum, paid);
                store_some(sum, own + c, n - c);
            }
            // taken from the pairs before they are softened: afterwards a stiff coupling would magnify rounding
            double taken = coupling[s] / (1 + coupling[s] * mass.sum()) * paid.sum();
            for (i64 c = 0; c < n; c += 4)
                store_some(some(soft + c, n - c) * (some(own + c, n - c) - Four::all(taken)), own + c, n - c);
            shift[s] = taken;
            if (missing.size > 0) subtract_columns(n, b, own, missing.data);
        });
    }
    return {};
}

// Rows of a state less their mean, weighed by softness, as `centred`, and times their softness as `weighed`; `stride`
// numbers a row. Returns the sum of the weights.
[[gnu::always_inline]] inline double centre(auto n, const Block& b, const double* softness, i64 stride, double* mean,
                                            double* centred, double* weighed) {
    double mass = 0.0;
    for (i64 c = 0; c < n; ++c) mass += softness[c];
    Four share = Four::all(mass > 0.0 ? 1 / mass : 0.0);
    for (i64 e = 0; e < b.size; e += 4) {
        Four sum = Four::all(0.0);
        for (i64 c = 0; c < n; ++c)
            sum = multiply_add(Four::load(b.rows + c * b.size + e), Four::all(softness[c]), sum);
        Four middle = sum * share;
        middle.store(mean + e);
        for (i64 c = 0; c < n; ++c) {
            Four away = Four::load(b.rows + c * b.size + e) - middle;
            away.store(centred + c * stride + e);
            (away * Four::all(softness[c])).store(weighed + c * stride + e);
        }
    }
    return mass;
}

// Add B' W B of a state to `values`, its lower triangle row by row at `places`. The rest is scratch.
template <class I>
[[gnu::always_inline]] inline void add_block(auto n, const Block& b, const double* softness, double coupling,
                                             double* mean, double* centred, double* weighed, const I* places,
                                             double* values) {
    i64 stride = (b.size + SPARE) / 4 * 4;
    double mass = centre(n, b, softness, stride, mean, centred, weighed), weight = mass / (1 + coupling * mass);
    for (i64 row = 0; row < b.size; places += ++row) {
        for (i64 e = 0; e <= row; e += 4) {
            Four total = Four::load(mean + e) * Four::all(weight * mean[row]);
            for (i64 c = 0; c < n; ++c) {
                i64 at = c * stride;
                total = multiply_add(Four::load(centred + at + e), Four::all(weighed[at + row]), total);
            }
            add_at(values, places + e, total, row + 1 - e);
        }
    }
}

// Add B' W B to `values`: per state the spread of its rows around their mean, plus the softened mean itself.
//
// Written like this nothing cancels, however stiff the coupling is. The lower triangle of a state's block goes, row by
// row, to the entries from entry_start[s] on.
template <class I>
Done assemble(In<i64> pair_start, In<i64> start, In<i64> coefficient_start, In<i64> members, In<double> coefficients,
              In<double> softness, In<double> coupling, In<i64> entry_start, In<I> entries, Out<double> values) {
    Blocks blocks{pair_start, start, coefficient_start, members, coefficients};
    REQUIRE(blocks.fit());
    i64 n_states = blocks.n_states(), widest = 0, largest = 0;
    REQUIRE(softness.size == blocks.n_pairs() && coupling.size == n_states && entry_start.size > n_states);
    REQUIRE(entry_start[0] >= 0 && entry_start[n_states] >= 0 && entry_start[n_states] <= entries.size);
    for (i64 s = 0; s < n_states; ++s) {
        i64 size = start[s + 1] - start[s] + SPARE;
        widest = std::max(widest, size), largest = std::max(largest, size * (pair_start[s + 1] - pair_start[s]));
    }
    Buffer<double> room(widest + 2 * largest);
    REQUIRE_MEMORY(room);
    double *mean = room.data, *centred = mean + widest, *weighed = centred + largest;
    for (i64 s = 0; s < n_states; ++s) {
        Block b = blocks[s];
        const double* soft = softness.data + b.pair;
        const I* places = entries.data + entry_start[s];
        with_pairs(b.pairs, [&](auto n) __attribute__((always_inline)) {
            add_block(n, b, soft, coupling[s], mean, centred, weighed, places, values.data);
        });
    }
    return {};
}

// Add the Laplacian of weighted edges, each a clique of two whose entries begin at `first`.
template <class I>
Done add_edges(In<double> weights, In<I> entries, i64 first, Out<double> values) {
    REQUIRE(first >= 0 && first <= entries.size && weights.size <= (entries.size - first) / 3);
    const I* places = entries.data + first;
    for (double weight : weights) {
        values[places[0]] += weight;
        values[places[1]] -= weight;
        values[places[2]] += weight;
        places += 3;
    }
    return {};
}

// (start, coefficient_start) of every state; states without active pairs have no members.
template <class I>
std::tuple<Buffer<i64>, Buffer<i64>> block_sizes(Pattern<I> p, Matrix<const bool> active, bool extra) {
    i64 n_states = active.rows, n_actions = active.columns;
    REQUIRE(p.count() == n_states * n_actions);
    Buffer<i64> start(n_states + 1, 0), coefficient_start(n_states + 1, 0), mark(n_states, -1);
    REQUIRE_MEMORY(start, coefficient_start, mark);
    for (i64 s = 0; s < n_states; ++s) {
        i64 size = 0, pairs = 0;
        for (i64 a = 0; a < n_actions; ++a) {
            if (!active(s, a)) continue;
            if (pairs++ == 0) mark[s] = s, size = extra ? 2 : 1;
            for (i64 row = s * n_actions + a, k = p.first(row); k < p.last(row); ++k)
                if (mark[p.indices[k]] != s) mark[p.indices[k]] = s, ++size;
        }
        start[s + 1] = start[s] + size;
        coefficient_start[s + 1] = coefficient_start[s] + size * pairs;
    }
    return {std::move(start), std::move(coefficient_start)};
}

// Members are the state, its successors and, if `extra`, the unknown n_states + s with coefficient -1.
template <class I>
Done fill_blocks(Rows<I> p, double gamma, Matrix<const bool> active, bool extra, In<i64> start,
                 In<i64> coefficient_start, Out<i64> members, Out<double> coefficients) {
    i64 n_states = active.rows, n_actions = active.columns;
    REQUIRE(p.count() == n_states * n_actions && start.size == n_states + 1);
    REQUIRE(coefficient_start.size == n_states + 1 && members.size >= start[n_states]);
    REQUIRE(coefficients.size >= coefficient_start[n_states]);
    Buffer<i64> local(n_states, 0), mark(n_states, -1);
    REQUIRE_MEMORY(local, mark);
    coefficients.fill(0.0);
    for (i64 s = 0; s < n_states; ++s) {
        i64 size = start[s + 1] - start[s], filled = 1;
        if (size == 0) continue;
        i64* own = members.data + start[s];
        double* row = coefficients.data + coefficient_start[s];
        mark[s] = s, local[s] = 0, own[0] = s;
        for (i64 a = 0; a < n_actions; ++a) {
            if (!active(s, a)) continue;
            bool has_room = row + size <= coefficients.data + coefficient_start[s + 1];
            REQUIRE(has_room);
            row[0] -= 1.0;
            for (i64 pair = s * n_actions + a, k = p.first(pair); k < p.last(pair); ++k) {
                i64 t = p.indices[k];
                REQUIRE(mark[t] == s || filled < size);
                if (mark[t] != s) mark[t] = s, local[t] = filled, own[filled++] = t;
                row[local[t]] += gamma * p.data[k];
            }
            if (extra) row[size - 1] = -1.0;
            row += size;
        }
        if (extra) own[size - 1] = n_states + s;
    }
    return {};
}

#define BLOCKS "pair_start start coefficient_start members coefficients "
inline const Kernel kernels[] = {
    kernel<block_sizes<i32>, block_sizes<i64>>("block_sizes", "indptr indices active extra",
                                               "Where members and coefficients of every state begin."),
    kernel<fill_blocks<i32>, fill_blocks<i64>>(
        "fill_blocks", "indptr indices data gamma active extra start coefficient_start members coefficients",
        "Members and coefficients of every state."),
    kernel<backward>("backward", BLOCKS "y sums missing", "Sums over the pairs of each state; missing -= B' y."),
    kernel<respond>("respond", BLOCKS "softness coupling push lift x out shift missing",
                    "out = W (push + lift + B x); missing -= B' out."),
    kernel<assemble<i32>, assemble<i64>>("assemble", BLOCKS "softness coupling entry_start entries values",
                                         "Add B' W B to the entries of a matrix."),
    kernel<add_edges<i32>, add_edges<i64>>("add_edges", "weights entries first values",
                                           "Add the Laplacian of weighted edges to the entries of a matrix."),
};
#undef BLOCKS
inline constexpr Constant constants[] = {{"SPARE", SPARE}};

inline const Subject listed =
    subject("interior_blocks", "The flow operator state by state, and its normal matrix.",
            kernels, constants);

}  // namespace cautious::interior_blocks
