// Loops over the rows and the graph of a model.
//
// Legend: row s*A + a of the sparse rows P is P(. | s, a); `allowed` (S*A,) says which pairs exist.
#pragma once
#include "binding.hpp"

namespace cautious::rows {

// States (S,) that some policy using allowed pairs can visit from the start states.
template <class I>
Buffer<bool> reach(Pattern<I> p, In<bool> allowed, In<bool> start) {
    i64 n_actions = evenly(allowed.size, start.size), top = 0;
    REQUIRE(n_actions > 0 && allowed.size == p.count());
    Buffer<bool> seen(start.size);
    REQUIRE_MEMORY(seen);
    std::copy(start.begin(), start.end(), seen.data);
    if (std::all_of(start.begin(), start.end(), [](bool given) { return given; })) return seen;
    Buffer<i64> stack(start.size);
    REQUIRE_MEMORY(stack);
    for (i64 s = 0; s < start.size; ++s)
        if (seen[s]) stack[top++] = s;
    bool* visited = seen.data;
    while (top > 0) {
        i64 s = stack[--top];
        for (i64 row = s * n_actions; row < (s + 1) * n_actions; ++row) {
            if (!allowed[row]) continue;
            for (i64 k = p.first(row), last = p.last(row); k < last; ++k) {
                i64 j = p.indices[k];
                if (visited[j]) continue;
                visited[j] = true;
                stack[top++] = j;
            }
        }
    }
    return seen;
}

// The largest set of pairs (S*A,) with which an agent can go on for ever without leaving that set. A pair is dropped
// when one of its successors has no pair left; repeated until nothing changes.
template <class I>
Buffer<bool> keep_safe(Pattern<I> p, In<bool> allowed, i64 n_states) {
    i64 n_actions = evenly(allowed.size, n_states);
    REQUIRE(n_actions > 0 && allowed.size == p.count());
    Buffer<bool> kept(allowed.size), alive(n_states);
    REQUIRE_MEMORY(kept, alive);
    std::copy(allowed.begin(), allowed.end(), kept.data);
    for (bool changed = true; changed;) {
        changed = false;
        for (i64 s = 0; s < n_states; ++s) {
            const bool* own = kept.data + s * n_actions;
            alive[s] = std::any_of(own, own + n_actions, [](bool pair) { return pair; });
        }
        for (i64 row = 0; row < kept.size; ++row) {
            for (i64 k = p.first(row); kept[row] && k < p.last(row); ++k) {
                if (alive[p.indices[k]]) continue;
                kept[row] = false;
                changed = true;
            }
        }
    }
    return kept;
}

// The length of the longest row, and the sum over the states of the longest of each.
template <class I>
std::tuple<i64, i64> row_lengths(In<I> indptr, i64 n_states) {
    i64 n_actions = evenly(indptr.size - 1, n_states), widest = 0, together = 0;
    REQUIRE(n_actions > 0);
    for (i64 s = 0, row = 0; s < n_states; ++s) {
        i64 longest = 0;
        for (i64 a = 0; a < n_actions; ++a, ++row) longest = std::max<i64>(longest, indptr[row + 1] - indptr[row]);
        widest = std::max(widest, longest);
        together += longest;
    }
    return {widest, together};
}

// How many entries are not larger than the one before; -1 if any is below 0 or above `last`.
template <class I>
i64 count_drops(In<I> x, I last) {
    i64 count = 0;
    bool outside = x.size > 0 && (x[0] < 0 || x[0] > last);
    for (i64 k = 1; k < x.size; ++k) {
        outside |= (x[k] < 0) | (x[k] > last);
        count += x[k] <= x[k - 1];
    }
    return outside ? -1 : count;
}

// Whether the rows lie one after the other, each sorted, without duplicates and within bounds.
template <class I>
bool well_formed(In<I> indptr, In<I> indices, i64 n_columns) {
    REQUIRE(indptr.size > 0 && n_columns >= 0);
    i64 n_rows = indptr.size - 1;
    if (indptr[0] != 0 || indptr[n_rows] != indices.size) return false;
    i64 drops = count_drops(indices, static_cast<I>(std::min<i64>(n_columns - 1, std::numeric_limits<I>::max())));
    if (drops < 0) return false;
    // entries that are not larger than the one before must all be the first of their rows; they are counted apart from
    // the rows, because loops over short rows are slow
    for (i64 row = 0; row < n_rows; ++row) {
        i64 start = indptr[row], end = indptr[row + 1];
        if (start > end || end > indices.size) return false;
        if (0 < start && start < end) drops -= indices[start] <= indices[start - 1];
    }
    return drops == 0;
}

// Whether the rows need no repair: no stored zeros, sums of one to rounding, nothing where not allowed.
template <class I>
bool are_probabilities(In<I> indptr, In<double> data, In<bool> allowed, double eps) {
    REQUIRE(indptr.size == allowed.size + 1 && indptr[0] == 0 && indptr[allowed.size] <= data.size);
    for (i64 row = 0; row < allowed.size; ++row) {
        i64 first = indptr[row], last = indptr[row + 1];
        if ((last > first) != allowed[row]) return false;
        double total = 0.0;
        for (i64 k = first; k < last; ++k) {
            if (!(data[k] > 0.0)) return false;
            total += data[k];
        }
        if (last > first && !(std::abs(total - 1.0) <= eps * static_cast<double>(2 + last - first))) return false;
    }
    return true;
}

// States (S,) that nothing leaves.
template <class I>
Buffer<bool> absorbing_states(Pattern<I> p, In<bool> allowed, i64 n_states) {
    i64 n_actions = evenly(allowed.size, n_states);
    REQUIRE(n_actions > 0 && allowed.size == p.count());
    Buffer<bool> out(n_states, true);
    REQUIRE_MEMORY(out);
    for (i64 row = 0; row < allowed.size; ++row) {
        i64 s = row / n_actions;
        if (!allowed[row]) continue;
        for (i64 k = p.first(row); out[s] && k < p.last(row); ++k) out[s] = p.indices[k] == s;
    }
    return out;
}

// Whether two rows have the same successors, chances and rewards of outcomes (none if `pay` is empty).
template <class I>
bool same_outcomes(const Rows<I>& p, In<double> pay, i64 one, i64 two) {
    if (p.length(one) != p.length(two)) return false;
    i64 i = p.first(one), j = p.first(two);
    for (; i < p.last(one); ++i, ++j)
        if (p.indices[i] != p.indices[j] || p.data[i] != p.data[j] || (pay.size > 0 && pay[i] != pay[j])) return false;
    return true;
}

// How many states have two actions a < b that lead to and pay the same: (A, A). `reward` (S*A,) is the mean, `pay` the
// reward of each outcome, empty if rewards do not depend on it.
template <class I>
Buffer<i64> duplicate_actions(Rows<I> p, In<double> reward, In<double> pay, In<bool> allowed, i64 n_states) {
    i64 n_actions = evenly(allowed.size, n_states);
    REQUIRE(n_actions > 0 && allowed.size == p.count() && reward.size == p.count());
    REQUIRE(pay.size == 0 || pay.size == p.data.size);
    auto count = Buffer<i64>::table(n_actions, n_actions, 0);
    REQUIRE_MEMORY(count);
    for (i64 s = 0; s < n_states; ++s) {
        for (i64 a = 0; a < n_actions; ++a) {
            for (i64 b = a + 1; b < n_actions; ++b) {
                i64 one = s * n_actions + a, two = s * n_actions + b;
                count[a * n_actions + b] += allowed[one] && allowed[two] && reward[one] == reward[two] &&
                                            same_outcomes(p, pay, one, two);
            }
        }
    }
    return count;
}

inline const Kernel kernels[] = {
    kernel<reach<i32>, reach<i64>>("reach", "indptr indices allowed start",
                                   "States (S,) that allowed pairs can reach from the start states."),
    kernel<keep_safe<i32>, keep_safe<i64>>("keep_safe", "indptr indices allowed n_states",
                                           "The largest set of pairs (S*A,) that need never be left."),
    kernel<row_lengths<i32>, row_lengths<i64>>(
        "row_lengths", "indptr n_states",
        "Length of the longest row, and the sum over the states of the longest of each."),
    kernel<well_formed<i32>, well_formed<i64>>("well_formed", "indptr indices n_columns",
                                               "Whether rows are sorted, without duplicates and within bounds."),
    kernel<are_probabilities<i32>, are_probabilities<i64>>(
        "are_probabilities", "indptr data allowed eps",
        "Whether rows are positive, sum to one, and are empty where not allowed."),
    kernel<absorbing_states<i32>, absorbing_states<i64>>("absorbing_states", "indptr indices allowed n_states",
                                                         "States (S,) that nothing leaves."),
    kernel<duplicate_actions<i32>, duplicate_actions<i64>>(
        "duplicate_actions", "indptr indices data reward pay allowed n_states",
        "How many states have two actions that lead to and pay the same: (A, A)."),
};

inline const Subject listed = subject("rows", "Loops over the rows and the graph of a model.", kernels);

}  // namespace cautious::rows
