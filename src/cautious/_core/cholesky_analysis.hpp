// What a sparse Cholesky factor will look like, before any number is known.
//
// The matrices are sums of small dense blocks, each on a clique of unknowns. Legend: row c of `cliques` has the
// unknowns of clique c, row i of `graph` the neighbours of unknown i (symmetric, without the diagonal); `order` (n,)
// position -> unknown, `place` its inverse; `parent` (n,) the elimination tree (-1 at roots, else a later column);
// `counts` (n,) entries per column of L, diagonal included. A supernode is a range of columns first[k] to first[k + 1]
// that is stored as one dense panel on the common rows row_start[k] to row_start[k + 1] of `rows` (own columns first,
// ascending); `tree` has the parent of every supernode. What its own columns contribute to the rows below them, with
// what its children left there, is its update matrix.
#pragma once
#include "binding.hpp"

namespace cautious::cholesky_analysis {

// Columns of panels and rows of update matrices are as long as a multiple of this, at every CPU level: vectors of
// numbers that begin within them then end within them.
inline constexpr i64 PADDING = 8;
inline constexpr i64 padded(i64 size) { return (size + PADDING - 1) / PADDING * PADDING; }
// Columns are eliminated this many at a time.
inline constexpr i64 COLUMNS_AT_ONCE = 4;

// Node numbers and levels are 32 bits wide here.
inline constexpr i64 MAX_UNKNOWNS = i64(1) << 28;

// Pieces of at most this many nodes are not divided further.
inline constexpr i64 MAX_LEAF_NODES = 24;
// A separator that leaves less than this share of the nodes on one side counts as longer than it is.
inline constexpr double MIN_SIDE_SHARE = 0.3;
inline constexpr i32 PLACED_LEVEL = -(1 << 30);

// A child joins its parent if at most this share of the panel becomes zeros, by the columns of the union.
struct Relaxation {
    i64 columns;
    double zeros;
};
inline constexpr Relaxation RELAXATIONS[] = {{16, 0.8}, {32, 0.3}, {64, 0.1}, {MAX_UNKNOWNS, 0.03}};

// Where the cliques of each of n unknowns are in `start` (n + 2,), which is zero before: those of unknown i are
// start[i] to start[i + 1]. `add(at, c, e)` is told each of them, clique c, whose member e is the unknown.
template <class I>
void by_unknown(Pattern<I> cliques, Out<i64> start, auto add) {
    for (i64 e = 0; e < cliques.first(cliques.count()); ++e) ++start[cliques.indices[e] + 2];
    for (i64 i = 2; i + 1 < start.size; ++i) start[i + 1] += start[i];
    // filling moves each start to that of the next unknown
    for (i64 c = 0; c < cliques.count(); ++c)
        for (i64 e = cliques.first(c); e < cliques.last(c); ++e) add(start[cliques.indices[e] + 1]++, c, e);
}

// The pattern without its diagonal: pointers into `indptr` (n + 1,), the columns are returned.
template <class I>
Buffer<i32> neighbours(Pattern<I> cliques, Out<i32> indptr) {
    i64 n = indptr.size - 1;
    REQUIRE(0 <= n && n < MAX_UNKNOWNS);
    Buffer<i64> start(n + 2, 0), cliques_of(cliques.indices.size), mark(n, -1);
    REQUIRE_MEMORY(start, cliques_of, mark);
    by_unknown(cliques, start, [&](i64 at, i64 c, i64) { cliques_of[at] = c; });
    double most = 0.0, all = static_cast<double>(n) * static_cast<double>(n);
    for (i64 c = 0; c < cliques.count(); ++c) most += std::pow(static_cast<double>(cliques.length(c)), 2);
    // room that is not filled takes no memory
    Buffer<i32> indices(static_cast<i64>(std::min({most, all, double{std::numeric_limits<i32>::max()}})));
    REQUIRE_MEMORY(indices);
    i64 total = 0;
    indptr[0] = 0;
    for (i64 i = 0; i < n; ++i) {
        mark[i] = i;
        for (i64 k = start[i]; k < start[i + 1]; ++k)
            for (i64 e = cliques.first(cliques_of[k]); e < cliques.last(cliques_of[k]); ++e) {
                i64 j = cliques.indices[e];
                if (mark[j] == i) continue;
                mark[j] = i;
                REQUIRE(total < indices.size);
                indices[total++] = static_cast<i32>(j);
            }
        indptr[i + 1] = static_cast<i32>(total);
    }
    indices.shorten(total);
    return indices;
}

// Nested dissection by levels of a search. A breadth-first search from the edge of a connected graph sorts its nodes
// into levels, and every level separates those before it from those after it. A short level near the middle is numbered
// last, both sides are treated alike, and so on down to small pieces.
template <class I>
struct Dissection {
    Pattern<I> graph;
    i64 n = graph.count();
    // `nodes` becomes the order; `queue` has the nodes that a search found, `level` their levels; nodes of the piece
    // that were not found yet have level -pieces, and no other nodes have
    Buffer<i32> nodes{n}, level{n, PLACED_LEVEL}, queue{n}, copied{n}, widths{n};
    // the pieces that wait, one after the other
    Out<i64> low, high;
    i64 waiting;
    i32 pieces = 0;
    // entries of the graph that searches looked at
    i64 looked_at = 0;

    void push(i64 begin, i64 end) {
        low[waiting] = begin;
        high[waiting++] = end;
    }
    void mark_unknown(i64 begin, i64 end) const {
        for (i64 i = begin; i < end; ++i) level[nodes[i]] = -pieces;
    }
    void number_queue(i64 begin, i64 size) const { std::copy_n(queue.data, size, nodes.data + begin); }

    // Nodes of the root's component within the piece; their number.
    i64 search(i32 root) {
        const i32 unknown = -pieces;
        i32* const found = level.data;
        i32* const to = queue.data;
        to[0] = root;
        found[root] = 0;
        i64 tail = 1;
        for (i64 head = 0; head < tail; ++head) {
            i32 following = found[to[head]] + 1;
            looked_at += graph.length(to[head]);
            for (i64 k = graph.first(to[head]), last = graph.last(to[head]); k < last; ++k) {
                i32 other = static_cast<i32>(graph.indices[k]);
                if (found[other] != unknown) continue;
                found[other] = following;
                to[tail++] = other;
            }
        }
        return tail;
    }

    // The level to separate at: few nodes, both sides of comparable size; -1 if there is none.
    i32 middle_level(i64 size) const {
        i32 depth = level[queue[size - 1]] + 1, best = -1;
        widths.span().part(0, depth).fill(0);
        for (i64 i = 0; i < size; ++i) ++widths[level[queue[i]]];
        double best_cost = INFINITE;
        i64 before = 0;
        for (i32 l = 0; l < depth - 1; before += widths[l++]) {
            i64 after = size - before - widths[l], smaller = std::min(before, after);
            if (l == 0 || smaller <= 0) continue;
            double share = static_cast<double>(smaller) / static_cast<double>(before + after);
            double cost = widths[l] * (share >= MIN_SIDE_SHARE ? 1.0 : MIN_SIDE_SHARE / share) * (1.25 - 0.5 * share);
            if (cost >= best_cost) continue;
            best = l;
            best_cost = cost;
        }
        return best;
    }

    // Number the nodes as (before, after, separator) from `begin` on; both sides wait.
    void separate(i64 begin, i64 size, i32 at) {
        i64 before = 0, after = 0;
        for (i64 i = 0; i < size; ++i) {
            i32 node = queue[i];
            if (level[node] == at) {
                // nodes without a neighbour beyond need not separate anything
                bool beyond = false;
                for (i64 k = graph.first(node); k < graph.last(node) && !beyond; ++k)
                    beyond = level[graph.indices[k]] == at + 1;
                if (!beyond) level[node] = at - 1;
            }
            before += level[node] < at;
            after += level[node] > at;
        }
        i64 a = begin, b = a + before, c = b + after;
        push(a, b);
        push(b, c);
        for (i64 i = 0; i < size; ++i) {
            i32 node = queue[i];
            nodes[level[node] < at ? a++ : level[node] > at ? b++ : c++] = node;
            if (level[node] == at) level[node] = PLACED_LEVEL;
        }
    }

    // Number the components of a piece one after another, all at once: a graph may have as many as nodes. The first
    // has been searched.
    void part_components(i64 begin, i64 end, i64 size) {
        std::copy(nodes.data + begin, nodes.data + end, copied.data);
        for (i64 i = 0, place = begin;; size = search(copied[i])) {
            number_queue(place, size);
            if (size > MAX_LEAF_NODES) push(place, place + size);
            place += size;
            while (i < end - begin && level[copied[i]] >= 0) ++i;
            if (i == end - begin) return;
        }
    }
};

// `order` (n,), position -> node, is divided further until about `most` entries were looked at; how many pieces wait then.
// The pieces low[k] to high[k] of it wait, ascending: at first one, with everything.
template <class I>
i64 nested_dissection(Pattern<I> graph, Out<i64> order, Out<i64> low, Out<i64> high, i64 waiting, i64 most) {
    const i64 n = graph.count();
    REQUIRE(n < MAX_UNKNOWNS && order.size == n && low.size == n + 1 && high.size == n + 1);
    REQUIRE(0 <= waiting && waiting <= n && most > 0);
    for (i64 k = 0, last = 0; k < waiting; last = high[k++]) {
        bool a_piece = last <= low[k] && low[k] < high[k] && high[k] <= n;
        REQUIRE(a_piece);
    }
    Dissection<I> work{.graph = graph, .low = low, .high = high, .waiting = waiting};
    REQUIRE_MEMORY(work.nodes, work.level, work.queue, work.copied, work.widths);
    for (i64 i = 0; i < n; ++i) work.nodes[i] = static_cast<i32>(order[i]);
    while (work.waiting > 0 && work.looked_at < most) {
        --work.waiting;
        i64 begin = work.low[work.waiting], end = work.high[work.waiting];
        ++work.pieces;
        work.mark_unknown(begin, end);
        i64 size = work.search(work.nodes[begin]);
        if (size < end - begin) {
            work.part_components(begin, end, size);
            continue;
        }
        i32 at = -1;
        if (size > MAX_LEAF_NODES) {
            // a node that was found last is at the edge
            i32 root = work.queue[size - 1];
            work.mark_unknown(begin, end);
            bool symmetric = work.search(root) == size;
            REQUIRE(symmetric);
            at = work.middle_level(size);
        }
        if (at < 0)
            work.number_queue(begin, size);
        else
            work.separate(begin, size, at);
    }
    for (i64 i = 0; i < n; ++i) order[i] = work.nodes[i];
    return work.waiting;
}

// The most states at the same number of steps from one state, over all actions; parts are searched one by one. Where it
// is a large part of all states, as with random successors, so are the sets that cut the model in two; models like
// trees are the exception.
template <class I>
i64 widest_level(Pattern<I> rows, i64 n_states) {
    i64 n_actions = evenly(rows.count(), n_states), widest = 0;
    REQUIRE(n_actions > 0);
    Buffer<bool> seen(n_states, false);
    Buffer<i64> queue(n_states);
    REQUIRE_MEMORY(seen, queue);
    for (i64 root = 0; root < n_states; ++root) {
        if (seen[root]) continue;
        seen[root] = true;
        queue[0] = root;
        for (i64 first = 0, last = 1, end = 1; first < last; first = last, last = end) {
            widest = std::max(widest, last - first);
            for (i64 k = first; k < last; ++k)
                for (i64 e = rows.first(queue[k] * n_actions); e < rows.first((queue[k] + 1) * n_actions); ++e) {
                    i64 successor = rows.indices[e];
                    if (seen[successor]) continue;
                    seen[successor] = true;
                    queue[end++] = successor;
                }
        }
    }
    return widest;
}

// Whether every parent comes later than its children.
inline bool is_forest(In<i64> parent) {
    for (i64 j = 0; j < parent.size; ++j)
        if (parent[j] != -1 && (parent[j] <= j || parent[j] >= parent.size)) return false;
    return true;
}

// Whether these are possible numbers of entries per column.
inline bool are_counts(In<i64> counts) {
    for (i64 j = 0; j < counts.size; ++j)
        if (counts[j] < 1 || counts[j] > counts.size - j) return false;
    return true;
}

// Whether `start` begins at zero and ascends in steps of at least one.
inline bool ascends(In<i64> start) {
    if (start.size < 1 || start[0] != 0) return false;
    for (i64 k = 1; k < start.size; ++k)
        if (start[k] <= start[k - 1]) return false;
    return true;
}

// Liu's algorithm with path compression.
template <class I>
Buffer<i64> elimination_tree(Pattern<I> graph, In<i64> order, In<i64> place) {
    i64 n = graph.count();
    REQUIRE(order.size == n && place.size == n);
    Buffer<i64> parent(n, -1), ancestor(n, -1);
    REQUIRE_MEMORY(parent, ancestor);
    for (i64 i = 0; i < n; ++i)
        for (i64 k = graph.first(order[i]); k < graph.last(order[i]); ++k)
            for (i64 j = place[graph.indices[k]]; j != -1 && j < i;) {
                i64 following = std::exchange(ancestor[j], i);
                if (following == -1) parent[j] = i;
                j = following;
            }
    return parent;
}

// Children before parents, the fullest child last: it can then be joined with its parent.
inline Buffer<i64> postorder(In<i64> parent, In<i64> counts) {
    i64 n = parent.size;
    REQUIRE(counts.size == n && is_forest(parent));
    Buffer<i64> head(n + 1, -1), following(n, -1), fullest(n + 1, -1), out(n), stack(n + 1);
    REQUIRE_MEMORY(head, following, fullest, out, stack);
    for (i64 j = 0; j < n; ++j) {
        i64& best = fullest[parent[j] >= 0 ? parent[j] : n];
        if (best < 0 || counts[j] > counts[best]) best = j;
    }
    for (i64 j = n - 1; j >= 0; --j) {
        i64 p = parent[j] >= 0 ? parent[j] : n;
        if (fullest[p] != j) following[j] = std::exchange(head[p], j);
    }
    // the stack hands out the last pushed first, so that reversing its order puts the fullest child last
    i64 filled = n, top = 0;
    stack[top++] = n;
    while (top > 0) {
        i64 node = stack[--top];
        if (node < n) out[--filled] = node;
        for (i64 child = head[node]; child >= 0; child = following[child]) stack[top++] = child;
        if (fullest[node] >= 0) stack[top++] = fullest[node];
    }
    return out;
}

// Where the branch of a leaf met those before it; paths are shortened on the way.
inline i64 meeting(Out<i64> ancestor, i64 j) {
    i64 root = j;
    while (ancestor[root] != root) root = ancestor[root];
    while (j != root) j = std::exchange(ancestor[j], root);
    return root;
}

// Entries per column of L (Gilbert, Ng and Peyton); `children_first` (n,) are the columns in postorder. Row i of L is a
// subtree of the elimination tree: its leaves are some of the entries of row i of the matrix. A column counts the rows
// whose subtree it is in, which are differences along the tree: plus one at every leaf, minus one where two branches
// meet, and minus one above the root.
template <class I>
Buffer<i64> column_counts(Pattern<I> graph, In<i64> order, In<i64> place, In<i64> parent, In<i64> children_first) {
    i64 n = graph.count();
    REQUIRE(order.size == n && place.size == n && parent.size == n && children_first.size == n && is_forest(parent));
    Buffer<i64> counts(n, 0), first(n, -1), ancestor(n), latest(n, -1), leaf(n, -1);
    REQUIRE_MEMORY(counts, first, ancestor, latest, leaf);
    for (i64 k = 0; k < n; ++k) {
        i64 j = children_first[k];
        ancestor[k] = k;
        counts[j] = first[j] < 0;
        for (; j >= 0 && first[j] < 0; j = parent[j]) first[j] = k;
    }
    for (i64 j : children_first) {
        if (parent[j] >= 0) --counts[parent[j]];
        for (i64 e = graph.first(order[j]); e < graph.last(order[j]); ++e) {
            i64 i = place[graph.indices[e]];
            // a leaf of row i's subtree: nothing below it was seen before
            if (i <= j || first[j] <= latest[i]) continue;
            latest[i] = first[j];
            ++counts[j];
            if (leaf[i] >= 0) --counts[meeting(ancestor, leaf[i])];
            leaf[i] = j;
        }
        if (parent[j] >= 0) ancestor[j] = parent[j];
    }
    for (i64 j = 0; j < n; ++j)
        if (parent[j] >= 0) counts[parent[j]] += counts[j];
    return counts;
}

// The share of zeros that a panel of so many columns may have.
inline double allowed_zeros(i64 columns) {
    const Relaxation* found = RELAXATIONS;
    while (columns > found->columns) ++found;
    return found->zeros;
}

// First columns of the supernodes, and n: columns of equal structure, then relaxed by joining last children.
inline Buffer<i64> supernodes(In<i64> parent, In<i64> counts) {
    i64 n = parent.size, made = 0;
    REQUIRE(n < MAX_UNKNOWNS && counts.size == n && is_forest(parent) && are_counts(counts));
    Buffer<i64> first(n + 1), until(n + 1, 0);
    REQUIRE_MEMORY(first, until);
    for (i64 j = 0; j < n; ++j) until[j + 1] = until[j] + counts[j];
    for (i64 begin = 0, end = 0; end < n; first[made++] = begin) {
        begin = end++;
        while (end < n && parent[end - 1] == end && counts[end] == counts[end - 1] - 1) ++end;
        while (made > 0 && begin <= parent[begin - 1] && parent[begin - 1] < end) {
            i64 child = first[made - 1], columns = end - child;
            // the union's own columns plus the rows of the parent
            i64 stored = columns * (columns + counts[end - 1] - 1) - columns * (columns - 1) / 2;
            i64 zeros = stored - until[end] + until[child];
            if (static_cast<double>(zeros) / static_cast<double>(stored) > allowed_zeros(columns)) break;
            begin = child;
            --made;
        }
    }
    first[made] = n;
    first.shorten(made + 1);
    return first;
}

// The parent of each supernode, -1 at roots.
inline Buffer<i64> supernode_tree(In<i64> first, In<i64> parent) {
    i64 made = first.size - 1;
    REQUIRE(ascends(first) && first[made] == parent.size && is_forest(parent));
    Buffer<i64> supernode(parent.size), tree(made, -1);
    REQUIRE_MEMORY(supernode, tree);
    for (i64 k = 0; k < made; ++k) supernode.span().part(first[k], first[k + 1]).fill(k);
    for (i64 k = 0; k < made; ++k)
        if (i64 p = parent[first[k + 1] - 1]; p >= 0) tree[k] = supernode[p];
    return tree;
}

// (row_start, rows): the rows of every supernode, its own columns first.
template <class I>
std::tuple<Buffer<i64>, Buffer<i64>> supernode_rows(Pattern<I> graph, In<i64> order, In<i64> place, In<i64> first,
                                                    In<i64> tree, In<i64> counts) {
    i64 n = graph.count(), made = tree.size;
    REQUIRE(order.size == n && place.size == n && counts.size == n && are_counts(counts));
    REQUIRE(first.size == made + 1 && ascends(first) && first[made] == n && is_forest(tree));
    Buffer<i64> row_start(made + 1, 0), mark(n, -1), head(made, -1), following(made, -1);
    REQUIRE_MEMORY(row_start, mark, head, following);
    for (i64 k = 0; k < made; ++k)
        row_start[k + 1] = row_start[k] + first[k + 1] - first[k] + counts[first[k + 1] - 1] - 1;
    Buffer<i64> rows(row_start[made]);
    REQUIRE_MEMORY(rows);
    for (i64 k = 0; k < made; ++k) {
        i64 end = first[k + 1], filled = row_start[k], room = row_start[k + 1];
        auto add = [&](i64 i) {
            if (i < end || mark[i] == k || filled == room) return;
            mark[i] = k;
            rows[filled++] = i;
        };
        for (i64 j = first[k]; j < end; ++j) rows[filled++] = j;
        i64 own = filled;
        for (i64 j = first[k]; j < end; ++j)
            for (i64 e = graph.first(order[j]); e < graph.last(order[j]); ++e) add(place[graph.indices[e]]);
        for (i64 child = head[k]; child >= 0; child = following[child])
            for (i64 e = row_start[child] + first[child + 1] - first[child]; e < row_start[child + 1]; ++e)
                add(rows[e]);
        REQUIRE(filled == room);
        sort(rows.span().part(own, filled));
        if (tree[k] >= 0) following[k] = std::exchange(head[tree[k]], k);
    }
    return {std::move(row_start), std::move(rows)};
}

// Whether there is a row for every own column, and room for all rows.
inline bool are_rows(In<i64> first, In<i64> row_start, In<i64> rows) {
    if (!ascends(first) || !ascends(row_start) || row_start.size != first.size) return false;
    for (i64 k = 0; k + 1 < first.size; ++k)
        if (row_start[k + 1] - row_start[k] < first[k + 1] - first[k]) return false;
    return row_start[row_start.size - 1] == rows.size;
}

// For every row of a supernode below its own columns: its position in the parent's rows.
inline Buffer<i64> positions_in_parent(In<i64> first, In<i64> row_start, In<i64> rows, In<i64> tree) {
    REQUIRE(are_rows(first, row_start, rows) && first.size == tree.size + 1 && is_forest(tree));
    Buffer<i64> positions(rows.size, 0);
    REQUIRE_MEMORY(positions);
    for (i64 k = 0; k < tree.size; ++k) {
        i64 p = tree[k];
        if (p < 0) continue;
        i64 at = row_start[p], end = row_start[p + 1];
        for (i64 e = row_start[k] + first[k + 1] - first[k]; e < row_start[k + 1]; ++e) {
            while (at < end && rows[at] != rows[e]) ++at;
            bool parent_has_all_rows = at < end;
            REQUIRE(parent_has_all_rows);
            positions[e] = at - row_start[p];
        }
    }
    return positions;
}

// (start, room): where the panels of the supernodes are, and how many numbers that takes. Four columns at a time are
// eliminated and vectors of numbers read, also where fewer are left: the last panel needs room behind it.
inline std::tuple<Buffer<i64>, i64> panel_places(In<i64> first, In<i64> row_start) {
    i64 made = first.size - 1, widest = 0;
    REQUIRE(ascends(first) && ascends(row_start) && row_start.size == first.size);
    Buffer<i64> start(made + 1, 0);
    REQUIRE_MEMORY(start);
    for (i64 k = 0; k < made; ++k) {
        i64 width = padded(row_start[k + 1] - row_start[k]);
        start[k + 1] = start[k] + (first[k + 1] - first[k]) * width;
        widest = std::max(widest, width);
    }
    i64 room = start[made] + COLUMNS_AT_ONCE * widest + PADDING;
    return {std::move(start), room};
}

// (start, room): where the update matrices wait for the parents, and how many numbers that takes. There are two stacks,
// one for every second generation: an update matrix is made while those of the children are still needed.
inline std::tuple<Buffer<i64>, i64> update_places(In<i64> first, In<i64> row_start, In<i64> tree) {
    i64 made = tree.size, top[2] = {0, 0}, peak[2] = {0, 0};
    REQUIRE(first.size == made + 1 && row_start.size == made + 1 && ascends(first) && ascends(row_start));
    REQUIRE(is_forest(tree));
    Buffer<i64> start(made), held(made, 0);
    Buffer<u8> side(made, 0);
    REQUIRE_MEMORY(start, held, side);
    for (i64 k = made - 1; k >= 0; --k)
        if (tree[k] >= 0) side[k] = !side[tree[k]];
    for (i64 k = 0; k < made; ++k) {
        i64 stride = padded(row_start[k + 1] - row_start[k] - first[k + 1] + first[k]), size = stride * stride;
        i64& own = top[side[k]];
        start[k] = own;
        own += size;
        peak[side[k]] = std::max(peak[side[k]], own);
        top[!side[k]] -= held[k];
        if (tree[k] >= 0)
            held[tree[k]] += size;
        else
            own -= size;
    }
    for (i64 k = 0; k < made; ++k) start[k] += side[k] * peak[0];
    return {std::move(start), peak[0] + peak[1]};
}

// (column_start, entry_row, entry_place): the entries of the lower triangle, numbered column by column in the order of
// elimination, the diagonal first, and where they go in their panels.
template <class I>
std::tuple<Buffer<i64>, Buffer<i64>, Buffer<i64>> number_entries(Pattern<I> graph, In<i64> order, In<i64> place,
                                                                 In<i64> first, In<i64> row_start, In<i64> rows) {
    i64 n = graph.count(), filled = 0, most = n + graph.indptr[n];
    REQUIRE(order.size == n && place.size == n);
    REQUIRE(are_rows(first, row_start, rows) && first[first.size - 1] == n);
    Buffer<i64> column_start(n + 1, 0), entry_row(most), entry_place(most), local(n, 0);
    REQUIRE_MEMORY(column_start, entry_row, entry_place, local);
    for (i64 k = 0; k + 1 < first.size; ++k) {
        i64 begin = first[k], width = padded(row_start[k + 1] - row_start[k]);
        for (i64 e = row_start[k]; e < row_start[k + 1]; ++e) local[rows[e]] = e - row_start[k];
        for (i64 j = begin; j < first[k + 1]; ++j) {
            i64 column = (j - begin) * width;
            entry_row[filled] = j;
            entry_place[filled++] = column + j - begin;
            for (i64 e = graph.first(order[j]); e < graph.last(order[j]); ++e) {
                i64 i = place[graph.indices[e]];
                if (i <= j) continue;
                entry_row[filled] = i;
                entry_place[filled++] = column + local[i];
            }
            column_start[j + 1] = filled;
        }
    }
    entry_row.shorten(filled);
    entry_place.shorten(filled);
    return {std::move(column_start), std::move(entry_row), std::move(entry_place)};
}

// (start, entries): for every clique, row by row, the entries of the lower triangle of its block.
//
// Unknown by unknown: where its entries are, in its column and in its row, is written down once for all its cliques.
template <class I>
std::tuple<Buffer<i64>, Buffer<i32>> clique_entries(Pattern<I> cliques, In<i64> place, In<i64> column_start,
                                                    In<i64> entry_row) {
    i64 n = place.size;
    REQUIRE(ascends(column_start) && column_start.size == n + 1);
    REQUIRE(column_start[n] == entry_row.size && entry_row.size <= std::numeric_limits<i32>::max());
    Buffer<i64> start(cliques.count() + 1, 0), unknown_start(n + 2, 0), row_start(n + 2, 0);
    Buffer<i64> clique_of(cliques.indices.size), member(cliques.indices.size);
    // the entries of each row, and their columns
    Buffer<i32> in_row(entry_row.size), column_of(entry_row.size), entry_of(n, -1);
    REQUIRE_MEMORY(start, unknown_start, row_start, clique_of, member, in_row, column_of, entry_of);
    for (i64 c = 0; c < cliques.count(); ++c) {
        i64 size = cliques.length(c);
        start[c + 1] = start[c] + size * (size + 1) / 2;
    }
    Buffer<i32> entries(start[cliques.count()]);
    REQUIRE_MEMORY(entries);
    by_unknown(cliques, unknown_start, [&](i64 at, i64 c, i64 e) { clique_of[at] = c, member[at] = e; });
    by_unknown(Pattern<i64>{column_start, entry_row}, row_start, [&](i64 at, i64 column, i64 e) {
        in_row[at] = static_cast<i32>(e), column_of[at] = static_cast<i32>(column);
    });
    for (i64 i = 0; i < n; ++i) {
        i64 p = place[i];
        for (i64 at = row_start[p]; at < row_start[p + 1]; ++at) entry_of[column_of[at]] = in_row[at];
        for (i64 at = column_start[p]; at < column_start[p + 1]; ++at) entry_of[entry_row[at]] = static_cast<i32>(at);
        i32 least = 0;
        for (i64 k = unknown_start[i]; k < unknown_start[i + 1]; ++k) {
            i64 first = cliques.first(clique_of[k]), a = member[k] - first;
            i32* row = entries.data + start[clique_of[k]] + a * (a + 1) / 2;
            for (i64 b = 0; b <= a; ++b) least = std::min(least, row[b] = entry_of[place[cliques.indices[first + b]]]);
        }
        bool entry_is_in_the_pattern = least == 0;
        REQUIRE(entry_is_in_the_pattern);
        for (i64 at = row_start[p]; at < row_start[p + 1]; ++at) entry_of[column_of[at]] = -1;
        for (i64 at = column_start[p]; at < column_start[p + 1]; ++at) entry_of[entry_row[at]] = -1;
    }
    return {std::move(start), std::move(entries)};
}

inline const Constant constants[] = {{"PADDING", PADDING}};

inline const Kernel kernels[] = {
    kernel<neighbours<i32>, neighbours<i64>>("neighbours", "clique_start members indptr",
                                             "The pattern of cliques without its diagonal: pointers into ``indptr``."),
    kernel<nested_dissection<i32>, nested_dissection<i64>>(
        "nested_dissection", "indptr indices order low high waiting most",
        "Divide the pieces of ``order`` that wait; how many wait after ``most`` entries."),
    kernel<widest_level<i32>, widest_level<i64>>("widest_level", "indptr indices n_states",
                                                 "The most states at the same number of steps from one state."),
    kernel<elimination_tree<i32>, elimination_tree<i64>>("elimination_tree", "indptr indices order place",
                                                         "The parent of each column, -1 at roots."),
    kernel<postorder>("postorder", "parent counts", "Children before parents, the fullest child last."),
    kernel<column_counts<i32>, column_counts<i64>>("column_counts", "indptr indices order place parent children_first",
                                                   "Entries per column of L, diagonal included."),
    kernel<supernodes>("supernodes", "parent counts", "First columns of the supernodes, and n."),
    kernel<supernode_tree>("supernode_tree", "first parent", "The parent of each supernode, -1 at roots."),
    kernel<supernode_rows<i32>, supernode_rows<i64>>("supernode_rows", "indptr indices order place first tree counts",
                                                     "(row_start, rows) of the supernodes."),
    kernel<positions_in_parent>("positions_in_parent", "first row_start rows tree",
                                "Where the rows below a supernode's own columns are among its parent's rows."),
    kernel<panel_places>("panel_places", "first row_start", "(start, room) of the supernodes' panels."),
    kernel<update_places>("update_places", "first row_start tree", "(start, room) of the supernodes' update matrices."),
    kernel<number_entries<i32>, number_entries<i64>>(
        "number_entries", "indptr indices order place first row_start rows",
        "(column_start, entry_row, entry_place) of the lower triangle's entries."),
    kernel<clique_entries<i32>, clique_entries<i64>>(
        "clique_entries", "clique_start members place column_start entry_row",
        "(start, entries): the entries of each clique's lower triangle, row by row."),
};

inline const Subject listed =
    subject("cholesky_analysis", "What a sparse Cholesky factor will look like, before any number is known.",
            kernels, constants);

}  // namespace cautious::cholesky_analysis
