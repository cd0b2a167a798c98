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

// Strongly connected components of the states, by the pairs that are `inside` (Tarjan's algorithm with its own stack).
template <class I>
struct StrongComponents {
    const Pattern<I>& p;
    i64 n_actions;
    const bool* inside;
    i64 *component, *order, *low, *row, *entry, *path, *open;
    i64 n_components = 0, n_seen = 0, path_size = 0, open_size = 0;

    void enter(i64 s) {
        order[s] = low[s] = ++n_seen;
        row[s] = s * n_actions;
        entry[s] = p.first(row[s]);
        path[path_size++] = s;
        open[open_size++] = s;
    }
    // The next successor of s, or -1 when there are no more.
    i64 next(i64 s) {
        for (; row[s] < (s + 1) * n_actions; ++row[s]) {
            if (!inside[row[s]]) continue;
            i64 k = std::max<i64>(entry[s], p.first(row[s]));
            if (k < p.last(row[s])) {
                entry[s] = k + 1;
                return p.indices[k];
            }
        }
        return -1;
    }
    void leave(i64 s) {
        --path_size;
        if (path_size > 0) low[path[path_size - 1]] = std::min(low[path[path_size - 1]], low[s]);
        if (low[s] != order[s]) return;
        for (i64 j = -1; j != s;) {
            j = open[--open_size];
            component[j] = n_components;
        }
        ++n_components;
    }
    void from(i64 first) {
        enter(first);
        while (path_size > 0) {
            i64 s = path[path_size - 1], j = next(s);
            if (j < 0)
                leave(s);
            else if (order[j] == 0)
                enter(j);
            else if (component[j] < 0)
                low[s] = std::min(low[s], order[j]);
        }
    }
};

// The number of the maximal end component of each state (S,), -1 for states in none. Pairs that may leave the strongly
// connected component of their state are dropped until there are none; `inside` (S*A,) are those that are left.
template <class I>
Buffer<i64> end_components(Pattern<I> p, In<bool> allowed, Out<bool> inside, i64 n_states) {
    i64 n_actions = evenly(allowed.size, n_states);
    REQUIRE(n_actions > 0 && allowed.size == p.count() && inside.size == allowed.size);
    Buffer<i64> component(n_states, -1), order(n_states), low(n_states), row(n_states), entry(n_states);
    Buffer<i64> path(n_states), open(n_states);
    REQUIRE_MEMORY(component, order, low, row, entry, path, open);
    std::copy(allowed.begin(), allowed.end(), inside.data);
    for (bool changed = true; changed;) {
        changed = false;
        std::fill(component.data, component.data + n_states, -1);
        std::fill(order.data, order.data + n_states, 0);
        StrongComponents<I> graph{p,        n_actions,  inside.data, component.data, order.data,
                                  low.data, row.data,   entry.data,  path.data,      open.data};
        for (i64 s = 0; s < n_states; ++s)
            if (order[s] == 0) graph.from(s);
        for (i64 pair = 0; pair < inside.size; ++pair) {
            for (i64 k = p.first(pair); inside[pair] && k < p.last(pair); ++k) {
                if (component[p.indices[k]] == component[pair / n_actions]) continue;
                inside[pair] = false;
                changed = true;
            }
        }
    }
    for (i64 s = 0; s < n_states; ++s) {
        const bool* own = inside.data + s * n_actions;
        if (!std::any_of(own, own + n_actions, [](bool pair) { return pair; })) component[s] = -1;
    }
    return component;
}

// `order` (S,): the states by their numbers (S,), which are below S; equal ones as they are. `first` (S + 1,) is room.
inline void sort_states(const i64* number, Buffer<i64>& first, Out<i64> order) {
    i64 n_states = order.size;
    std::fill(first.data, first.data + n_states + 1, 0);
    for (i64 s = 0; s < n_states; ++s) ++first[number[s] + 1];
    for (i64 k = 1; k <= n_states; ++k) first[k] += first[k - 1];
    for (i64 s = 0; s < n_states; ++s) order[first[number[s]]++] = s;
}

// `order` (S,): the states, so that allowed pairs lead to later states, or back within a strongly connected component;
// `block` (S,): the number of the component of each state, in this order; how many states the largest of these has.
// Components go by the longest path that leads to them, and among equals by their first states: models whose states
// are numbered as they were found are then gone through nearly in the order in which they lie in memory.
template <class I>
i64 forward_order(Pattern<I> p, In<bool> allowed, Out<i64> order, Out<i64> block) {
    i64 n_states = order.size, n_actions = evenly(allowed.size, n_states), largest = 0;
    REQUIRE(n_actions > 0 && allowed.size == p.count() && block.size == n_states);
    Buffer<i64> component(n_states, -1), seen(n_states, 0), low(n_states), row(n_states), entry(n_states);
    Buffer<i64> path(n_states), open(n_states), depth(n_states, 0), first(n_states + 1, 0);
    REQUIRE_MEMORY(component, seen, low, row, entry, path, open, depth, first);
    StrongComponents<I> graph{p,        n_actions, allowed.data, component.data, seen.data,
                              low.data, row.data,  entry.data,   path.data,      open.data};
    for (i64 s = 0; s < n_states; ++s)
        if (seen[s] == 0) graph.from(s);
    // the algorithm numbers a component after those that it leads to
    for (i64 s = 0; s < n_states; ++s) component[s] = graph.n_components - 1 - component[s];
    sort_states(component.data, first, order);
    for (i64 s : order) {
        i64 after = depth[component[s]] + 1;
        for (i64 pair = s * n_actions; pair < (s + 1) * n_actions; ++pair) {
            for (i64 k = p.first(pair); allowed[pair] && k < p.last(pair); ++k) {
                i64 other = component[p.indices[k]];
                if (other != component[s] && depth[other] < after) depth[other] = after;
            }
        }
    }
    // components are numbered anew, by depth and then as their first states are
    std::fill(first.data, first.data + n_states + 1, 0);
    for (i64 c = 0; c < graph.n_components; ++c) ++first[depth[c] + 1];
    for (i64 k = 1; k <= n_states; ++k) first[k] += first[k - 1];
    i64* number = seen.data;
    std::fill(number, number + n_states, -1);
    for (i64 s = 0; s < n_states; ++s) {
        i64 c = component[s];
        if (number[c] < 0) number[c] = first[depth[c]]++;
        block[s] = number[c];
    }
    std::fill(low.data, low.data + n_states, 0);
    for (i64 c : block) largest = std::max(largest, ++low[c]);
    sort_states(block.data, first, order);
    return largest;
}

// An action (S,) for each state that leads towards one of the `ended` states, by the fewest possible steps: a policy of
// these actions ends with certainty if allowed pairs never lead to a state without such an action. It is -1 in ended
// states, and in those from which allowed pairs cannot lead to one.
template <class I>
Buffer<i64> ending_actions(Pattern<I> p, In<bool> allowed, In<bool> ended) {
    i64 n_states = ended.size, n_actions = evenly(allowed.size, n_states), top = 0, done = 0;
    REQUIRE(n_actions > 0 && allowed.size == p.count());
    Buffer<i64> action(n_states, -1), first(n_states + 1, 0), queue(n_states), from(p.indices.size);
    REQUIRE_MEMORY(action, first, queue, from);
    // the pairs that lead to each state
    for (i64 row = 0; row < allowed.size; ++row)
        for (i64 k = p.first(row); allowed[row] && k < p.last(row); ++k) ++first[p.indices[k]];
    for (i64 s = 0, total = 0; s <= n_states; ++s) first[s] = total += first[s];
    for (i64 row = allowed.size - 1; row >= 0; --row)
        for (i64 k = p.first(row); allowed[row] && k < p.last(row); ++k) from[--first[p.indices[k]]] = row;
    for (i64 s = 0; s < n_states; ++s)
        if (ended[s]) queue[top++] = s;
    while (done < top) {
        i64 j = queue[done++];
        for (i64 k = first[j]; k < first[j + 1]; ++k) {
            i64 s = from[k] / n_actions;
            if (ended[s] || action[s] >= 0) continue;
            action[s] = from[k] - s * n_actions;
            queue[top++] = s;
        }
    }
    return action;
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
    kernel<end_components<i32>, end_components<i64>>(
        "end_components", "indptr indices allowed inside n_states",
        "The number of the maximal end component of each state, -1 for none; and the pairs inside."),
    kernel<forward_order<i32>, forward_order<i64>>(
        "forward_order", "indptr indices allowed order block",
        "The states, each before those it leads to; block = the components of cycles; the size of the largest."),
    kernel<ending_actions<i32>, ending_actions<i64>>(
        "ending_actions", "indptr indices allowed ended",
        "Actions (S,) that lead towards ended states; -1 where there is none."),
    kernel<duplicate_actions<i32>, duplicate_actions<i64>>(
        "duplicate_actions", "indptr indices data reward pay allowed n_states",
        "How many states have two actions that lead to and pay the same: (A, A)."),
};

inline const Subject listed = subject("rows", "Loops over the rows and the graph of a model.", kernels);

}  // namespace cautious::rows
