// A simplified model for starting values: every action is repeated until its likeliest outcome happens.
//
// Until then one stays in the state and collects its reward. With p the largest probability of a pair's row and s' the
// state it leads to, the values of this model times (1 - gamma) are the w with
//
//     w(s) = max over a of (1 - beta) r(s, a) + beta w(s'),     beta = gamma p / (1 - gamma (1 - p)),  0 if s' = s.
//
// Each pair has one successor, so a sweep in place propagates values along whole paths, where sweeps over the model
// itself propagate them by one step. Nothing is proved by it.
//
// A policy has one likely path from every state. All paths end in cycles, so  z = r + gamma P z  can be solved exactly
// in this model, state by state.
//
// Legend: row s*A + a of the sparse rows P is P(. | s, a); r (S*A,) rewards, minus infinity on pairs that may not be
// used; `target` (S*A,) is s', `weight` (S*A,) is beta; for one policy both are (S,); `order` (S,) its states, each
// after the one it leads to, except for the states in `closes` (S,), one of each cycle.
#pragma once
#include "binding.hpp"

namespace cautious::likely_moves {

// The largest probability of a pair, on average over about so many pairs.
template <class I>
double mean_largest_chance(In<I> indptr, In<double> data, i64 sample) {
    REQUIRE(indptr.size > 0 && sample > 0 && indptr[0] >= 0 && indptr[indptr.size - 1] <= data.size);
    i64 n_rows = indptr.size - 1, step = std::max<i64>(1, n_rows / sample), count = 0;
    double total = 0.0;
    for (i64 row = 0; row < n_rows; row += step) {
        if (indptr[row] >= indptr[row + 1]) continue;
        double largest = 0.0;
        for (i64 k = indptr[row]; k < indptr[row + 1]; ++k) largest = std::max(largest, data[k]);
        total += largest;
        ++count;
    }
    return total / static_cast<double>(std::max<i64>(count, 1));
}

struct Move {
    i64 target;
    double weight;
};

// Where one pair of state s most likely leads, and the discount until then; a pair without outcomes stays.
template <class I>
Move likeliest(const Rows<I>& p, double gamma, i64 row, i64 s) {
    i64 target = s;
    double largest = 0.0;
    for (i64 k = p.first(row); k < p.last(row); ++k) {
        bool larger = p.data[k] > largest;
        target = larger ? static_cast<i64>(p.indices[k]) : target;
        largest = larger ? p.data[k] : largest;
    }
    return {target, target == s ? 0.0 : gamma * largest / (1.0 - gamma * (1.0 - largest))};
}

// `target` and `weight` (S*A,) of all pairs of a block.
template <class I, class J>
Done likely_moves(Block<I> block, double gamma, i64 n_states, Out<J> target, Out<double> weight) {
    i64 n_actions = evenly(target.size, n_states);
    REQUIRE(block.fits(n_states, n_actions) && weight.size == target.size);
    for (i64 s = block.base, row = 0; s < block.end(n_actions); ++s)
        for (i64 pair = s * n_actions; pair < (s + 1) * n_actions; ++pair, ++row) {
            Move move = likeliest(block.rows, gamma, row, s);
            target[pair] = static_cast<J>(move.target);
            weight[pair] = move.weight;
        }
    return {};
}

// Raises w (S,) in place to the best that a pair offers, state by state; the largest increase.
template <class I>
double follow_moves(In<I> target, In<double> weight, In<double> r, Out<double> w, bool backwards) {
    i64 n_actions = evenly(r.size, w.size);
    REQUIRE(n_actions > 0 && target.size == r.size && weight.size == r.size);
    double increase = 0.0;
    for (i64 i = 0; i < w.size; ++i) {
        i64 s = backwards ? w.size - 1 - i : i;
        double best = w[s];
        for (i64 row = s * n_actions; row < (s + 1) * n_actions; ++row)
            if (r[row] > -INFINITE)
                best = std::max(best, (1.0 - weight[row]) * r[row] + weight[row] * w[target[row]]);
        increase = std::max(increase, best - w[s]);
        w[s] = best;
    }
    return increase;
}

// Brings the likely moves of the `held` actions (S,) to those of `action`, whose chain has the rows P (S,); whether one
// of them changed.
template <class I, class J>
bool change_moves(Rows<I> p, double gamma, In<i64> action, Out<i64> held, Out<J> target, Out<double> weight) {
    REQUIRE(p.count() == action.size && held.size == action.size);
    REQUIRE(target.size == action.size && weight.size == action.size);
    // most actions are the held ones: the search for the others is a loop of its own
    auto next = [=](i64 s) {
        return std::mismatch(action.begin() + s, action.end(), held.begin() + s).first - action.begin();
    };
    bool changed = false;
    for (i64 s = next(0); s < action.size; s = next(s + 1)) {
        held[s] = action[s];
        Move move = likeliest(p, gamma, s, s);
        target[s] = static_cast<J>(move.target);
        weight[s] = move.weight;
        changed = true;
    }
    return changed;
}

// Fills `order` and `closes`: follows the path from each state to its end or to a state that has a place already.
template <class I>
Done order_moves(In<I> target, Out<I> order, Out<bool> closes) {
    REQUIRE(order.size == target.size && closes.size == target.size);
    enum : u8 { fresh, on_path, placed };
    i64 n_states = target.size, filled = 0;
    Buffer<u8> place(n_states, fresh);
    Buffer<I> path(n_states);
    REQUIRE_MEMORY(place, path);
    closes.fill(false);
    auto put = [&](i64 s) {
        order[filled++] = static_cast<I>(s);
        place[s] = placed;
    };
    for (i64 first = 0; first < n_states; ++first) {
        i64 s = first, length = 0;
        for (; place[s] == fresh; s = target[s]) {
            place[s] = on_path;
            path[length++] = static_cast<I>(s);
        }
        if (place[s] == on_path) {
            closes[s] = true;
            put(s);
        }
        while (length > 0)
            if (i64 before = path[--length]; place[before] != placed) put(before);
    }
    return {};
}

// z (S,): the discounted sum of r (S,) along the likely path from each state.
template <class I>
Done sum_along_paths(In<I> target, In<double> weight, In<I> order, In<bool> closes, double gamma, In<double> r,
                     Out<double> z) {
    i64 n_states = z.size;
    REQUIRE(target.size == z.size && weight.size == z.size && order.size == z.size && closes.size == z.size);
    REQUIRE(r.size == z.size);
    double horizon = 1.0 / (1.0 - gamma);
    for (i64 i = 0; i < n_states; ++i) {
        i64 s = order[i];
        if (!closes[s]) {
            z[s] = horizon * (1.0 - weight[s]) * r[s] + weight[s] * z[target[s]];
            continue;
        }
        double total = 0.0, share = 1.0;
        i64 j = s;
        // no cycle is longer than the number of states
        for (i64 step = 0; step < n_states; ++step) {
            total += share * (1.0 - weight[j]) * r[j];
            share *= weight[j];
            j = target[j];
            if (j == s) break;
        }
        z[s] = horizon * total / (1.0 - share);
    }
    return {};
}

inline const Kernel kernels[] = {
    kernel<mean_largest_chance<i32>, mean_largest_chance<i64>>(
        "mean_largest_chance", "indptr data sample",
        "The largest probability of a pair, on average over about `sample` pairs."),
    kernel<likely_moves<i32, i32>, likely_moves<i64, i32>, likely_moves<i64, i64>>(
        "likely_moves", "base indptr indices data gamma n_states target weight",
        "Where each pair of a block most likely leads, and the discount until then."),
    kernel<follow_moves<i32>, follow_moves<i64>>("follow_moves", "target weight r w backwards",
                                                 "Raises w to the best that a pair offers; the largest increase."),
    kernel<change_moves<i32, i32>, change_moves<i64, i32>, change_moves<i64, i64>>(
        "change_moves", "pointer successor chance gamma action held target weight",
        "Brings the likely moves of the held actions to those of `action`; whether one of them changed."),
    kernel<order_moves<i32>, order_moves<i64>>(
        "order_moves", "target order closes",
        "The states, each after the one it leads to, except for one of each cycle, which are in `closes`."),
    kernel<sum_along_paths<i32>, sum_along_paths<i64>>(
        "sum_along_paths", "target weight order closes gamma r z",
        "z: the discounted sum of r along the likely path from each state."),
};

inline const Subject listed =
    subject("likely_moves", "A simplified model in which each pair leads to its likeliest outcome.",
            kernels);

}  // namespace cautious::likely_moves
