// Bellman sweeps over a model, and evaluation passes over the Markov chain of one policy.
//
// A thread works on a run of pieces of PIECE states; sums are kept for each piece, so that any number of threads gives
// the same bytes.
//
// Legend: row (s - base)*A + a of a block of sparse rows P is P(. | s, a); r (S*A,) a reward table, minus infinity on pairs that may
// not be used; gamma the discount; v (S,) values; xi (S,) the start distribution; the chain P_pi of one policy has one
// row per state, and b (S,) is its reward. Loops run over the pieces `first` to `last`, `last` not included.
#pragma once
#include "flow.hpp"

namespace cautious::planning {

using namespace flow;

inline constexpr i64 PIECE = 4096;
// states whose actions are compared while the values of their pairs are in the cache
inline constexpr i64 BLOCK_STATES = 256;
static_assert(PIECE % BLOCK_STATES == 0);

// iterates that evaluate_repeatedly keeps
inline constexpr i64 KEPT_ITERATES = 4;
// no call makes more: a call cannot be interrupted
inline constexpr i64 MAX_PASSES = 10'000;
// sweeps that bellman_in_order makes over a block whose values change slowly
inline constexpr i64 MAX_BLOCK_SWEEPS = 100;

inline i64 pieces_of(i64 n_states) { return (n_states + PIECE - 1) / PIECE; }
inline bool are_pieces(i64 first, i64 last, i64 n_states) {
    return 0 <= first && first <= last && last <= pieces_of(n_states);
}

// The best of the pairs' values q for the states from `first` on; how many actions changed.
inline i64 choose_actions(In<double> q, In<double> v, i64 first, Out<i64> action, Out<double> out) {
    i64 n_actions = q.size / out.size, changed = 0;
    const double* own = q.data;
    for (i64 i = 0; i < out.size; ++i, own += n_actions) {
        double best = own[0];
        for (i64 a = 1; a < n_actions; ++a) best = std::max(best, own[a]);
        // searching for the best action only where it changed keeps unpredictable branches out of the loop above
        if (own[action[first + i]] < best) {
            ++changed;
            action[first + i] = std::find(own, own + n_actions, best) - own;
        }
        out[i] = best > -INFINITE ? best : v[first + i];
    }
    return changed;
}

// What a sweep says of one piece: over the states in scope the least and the largest entry of T v - v; over all states
// the largest |T v| or |v|, <xi, T v>, and how many actions changed.
inline constexpr i64 SUMMARY = 5;

inline void summarise(In<double> v, In<double> swept, In<bool> scope, In<double> xi, i64 changed, Out<double> summary) {
    double least = INFINITE, most = -INFINITE, largest = 0.0, mean = 0.0;
    for (i64 s = 0; s < v.size; ++s) {
        mean += xi[s] * swept[s];
        largest = std::max(largest, std::max(std::abs(swept[s]), std::abs(v[s])));
        if (scope[s]) {
            least = std::min(least, swept[s] - v[s]);
            most = std::max(most, swept[s] - v[s]);
        }
    }
    double all[SUMMARY] = {least, most, largest, mean, static_cast<double>(changed)};
    std::copy_n(all, SUMMARY, summary.data);
}

// One optimality sweep: out = T v (S,), and the best action (S,), which stays where it ties. A state without pairs
// keeps its value. `summaries` (pieces, 5) as above. The pieces must lie in the block.
template <class I>
Done bellman(Block<I> block, In<double> r, double gamma, In<double> v, In<bool> scope, In<double> xi,
             Out<i64> action, Out<double> out, Matrix<double> summaries, i64 first, i64 last) {
    i64 n_states = v.size, n_actions = evenly(r.size, n_states);
    REQUIRE(block.fits(n_states, n_actions));
    REQUIRE(scope.size == v.size && xi.size == v.size && action.size == v.size && out.size == v.size);
    REQUIRE(summaries.rows == pieces_of(v.size) && summaries.columns == SUMMARY && are_pieces(first, last, v.size));
    REQUIRE(first == last || (first * PIECE >= block.base && std::min(last * PIECE, n_states) <= block.end(n_actions)));
    Buffer<double> q(BLOCK_STATES * n_actions);
    REQUIRE_MEMORY(q);
    for (i64 piece = first; piece < last; ++piece) {
        i64 start = piece * PIECE, end = std::min(start + PIECE, n_states), changed = 0;
        for (i64 s = start; s < end; s += BLOCK_STATES) {
            i64 next = std::min(s + BLOCK_STATES, end), row = s * n_actions;
            i64 before = block.base * n_actions;
            auto worth = q.span().part(0, (next - s) * n_actions);
            for (i64 pair = row; pair < next * n_actions; ++pair)
                worth[pair - row] = r[pair] + gamma * expectation(block.rows, v, pair - before);
            changed += choose_actions(worth, v, s, action, out.part(s, next));
        }
        summarise(v.part(start, end), out.part(start, end), scope.part(start, end), xi.part(start, end), changed,
                  summaries.row(piece));
    }
    return {};
}

// The summary of all pieces together.
inline std::tuple<double, double, double, double, double> combine_summaries(Matrix<const double> summaries) {
    REQUIRE(summaries.columns == SUMMARY);
    double least = INFINITE, most = -INFINITE, largest = 0.0, mean = 0.0, changed = 0.0;
    for (i64 piece = 0; piece < summaries.rows; ++piece) {
        auto own = summaries.row(piece);
        least = std::min(least, own[0]);
        most = std::max(most, own[1]);
        largest = std::max(largest, own[2]);
        mean += own[3];
        changed += own[4];
    }
    return {least, most, largest, mean, changed};
}

// new = b + gamma P_pi old.
template <class I>
Done evaluate(Rows<I> p, In<double> b, double gamma, In<double> old_values, Out<double> new_values, i64 first,
              i64 last) {
    REQUIRE(b.size == p.count() && old_values.size == b.size && new_values.size == b.size);
    REQUIRE(are_pieces(first, last, b.size));
    for (i64 s = first * PIECE; s < std::min(last * PIECE, b.size); ++s)
        new_values[s] = b[s] + gamma * expectation(p, old_values, s);
    return {};
}

// v <- b + gamma P_pi v, so many times: pass i writes row i % 4 of `iterates` (4, S), so that the last four remain.
template <class I>
Done evaluate_repeatedly(Rows<I> p, In<double> b, double gamma, In<double> v, i64 passes, Matrix<double> iterates) {
    REQUIRE(b.size == p.count() && v.size == b.size && 0 <= passes && passes <= MAX_PASSES);
    REQUIRE(iterates.rows == KEPT_ITERATES && iterates.columns == b.size);
    for (i64 pass = 0; pass < passes; ++pass) {
        In<double> before = pass == 0 ? v : In<double>(iterates.row((pass - 1) % KEPT_ITERATES));
        evaluate(p, b, gamma, before, iterates.row(pass % KEPT_ITERATES), 0, pieces_of(b.size));
    }
    return {};
}

// v <- T v in the states of a block, state by state. Each state sees the new values of those before it, so that values
// propagate farther than one step per sweep.
template <class I>
Done bellman_in_place(Block<I> block, In<double> r, double gamma, Out<double> v, bool backwards) {
    i64 n_actions = evenly(r.size, v.size);
    REQUIRE(block.fits(v.size, n_actions));
    for (i64 i = 0; i < block.count(n_actions); ++i) {
        i64 s = backwards ? block.end(n_actions) - 1 - i : block.base + i;
        double best = -INFINITE;
        for (i64 a = 0; a < n_actions; ++a)
            best = std::max(best, r[s * n_actions + a] +
                                      gamma * expectation<I>(block.rows, v, block.row(s, n_actions) + a));
        if (best > -INFINITE) v[s] = best;
    }
    return {};
}

// A sweep of `bellman_in_order` over the states of one block, and the largest change of a value.
template <class I>
double bellman_in_block(const Rows<I>& p, In<double> r, const i64* states, i64 size, In<i64> group, bool backwards,
                        double* top, Out<double> v) {
    i64 n_actions = evenly(r.size, v.size);
    double change = 0.0;
    for (i64 i = 0; i < size; ++i)
        if (group[states[i]] >= 0) top[group[states[i]]] = -INFINITE;
    for (i64 i = 0; i < size; ++i) {
        i64 s = states[backwards ? size - 1 - i : i];
        double best = -INFINITE;
        for (i64 row = s * n_actions; row < (s + 1) * n_actions; ++row) {
            if (r[row] == -INFINITE) continue;
            double worth = r[row], leaving = 1.0;
            for (i64 k = p.first(row); k < p.last(row); ++k) {
                i64 j = p.indices[k];
                if (j == s)
                    leaving -= p.data[k];
                else
                    worth += p.data[k] * v[j];
            }
            if (leaving > 0.0) best = std::max(best, worth / leaving);
        }
        if (group[s] >= 0) {
            top[group[s]] = std::max(top[group[s]], best);
        } else if (best > -INFINITE) {
            change = std::max(change, std::abs(best - v[s]));
            v[s] = best;
        }
    }
    for (i64 i = 0; i < size; ++i) {
        i64 s = states[i];
        if (group[s] < 0 || top[group[s]] == -INFINITE) continue;
        change = std::max(change, std::abs(top[group[s]] - v[s]));
        v[s] = top[group[s]];
    }
    return change;
}

// v <- T v without discount, from the last block of an `order` of all states to the first, and each block as often as
// values change by more than `aim`, in this order and backwards; about `sweeps` times all states together. A pair that
// may stay is repeated until it leaves, and left out if it never does: where blocks are single states, one sweep is
// enough. States of a `group` (S,), -1 for none, go to each other for free: all get the value of the best of them. How
// many sweeps over all states this was.
template <class I>
double bellman_in_order(Rows<I> p, In<double> r, In<i64> order, In<i64> block, In<i64> group, i64 sweeps, double aim,
                        Out<double> v) {
    i64 n = v.size, n_actions = evenly(r.size, n);
    REQUIRE(n_actions > 0 && r.size == p.count() && order.size == n && block.size == n && group.size == n);
    REQUIRE(sweeps > 0 && sweeps <= MAX_BLOCK_SWEEPS);
    Buffer<double> top(n, -INFINITE);
    REQUIRE_MEMORY(top);
    for (i64 i = 0; i < n; ++i) REQUIRE(order[i] >= 0 && order[i] < n && group[i] < n);
    i64 room = sweeps * n;
    for (i64 end = n, begin = n; end > 0; end = begin) {
        while (begin > 0 && block[order[begin - 1]] == block[order[end - 1]]) --begin;
        i64 size = end - begin, most = size == 1 ? 1 : std::clamp<i64>(room / size, 2, MAX_BLOCK_SWEEPS);
        for (i64 sweep = 0; sweep < most; ++sweep) {
            room -= size;
            if (bellman_in_block(p, r, order.data + begin, size, group, sweep % 2 == 0, top.data, v) <= aim) break;
        }
    }
    return static_cast<double>(sweeps) - static_cast<double>(room) / static_cast<double>(std::max<i64>(n, 1));
}

inline const Kernel kernels[] = {
    kernel<bellman<i32>, bellman<i64>>("bellman",
                                       "base indptr indices data r gamma v scope xi action out summaries first last",
                                       "One optimality sweep over pieces of states: out = T v and the best actions."),
    kernel<combine_summaries>("combine_summaries", "summaries", "The summary of all pieces together."),
    kernel<evaluate<i32>, evaluate<i64>>("evaluate", "indptr indices data b gamma old_values new_values first last",
                                         "new = b + gamma P_pi old on pieces of states."),
    kernel<evaluate_repeatedly<i32>, evaluate_repeatedly<i64>>(
        "evaluate_repeatedly", "indptr indices data b gamma v passes iterates",
        "The last four iterates of v <- b + gamma P_pi v."),
    kernel<bellman_in_place<i32>, bellman_in_place<i64>>(
        "bellman_in_place", "base indptr indices data r gamma v backwards",
        "v <- T v in the states of a block, state by state."),
    kernel<bellman_in_order<i32>, bellman_in_order<i64>>(
        "bellman_in_order", "indptr indices data r order block group sweeps aim v",
        "v <- T v without discount, block by block from the last one, each until it changes by less than aim."),
};

inline const Constant constants[] = {{"PIECE", PIECE}, {"SUMMARY", SUMMARY}, {"KEPT_ITERATES", KEPT_ITERATES}};

inline const Subject listed =
    subject("planning", "Bellman sweeps, and evaluation passes over the chain of one policy.", kernels, constants);

}  // namespace cautious::planning
