// Cheapest flows without capacities: the primal network simplex on a spanning tree.
//
// Legend: `links` (n, 6) of every node: its parent, first child, next and previous sibling, depth, and whether the
// arc to its parent points upwards; `carried` (3, n): cost and flow of that arc, and the node's potential pi. On arcs
// of the tree  pi(tail) - pi(head) = cost;  an arc outside of it pays when that difference exceeds its cost. Only
// arcs of the tree carry flow. Those that carry none point upwards, and the last arc to block a change leaves
// (Cunningham), so no sequence of exchanges returns to an earlier tree. A spanning tree is given by `parent` (n,), -1
// at the root, and `order` (n,), parents before children.
#pragma once
#include "binding.hpp"
#include "vec.hpp"

namespace cautious::network_simplex {

inline constexpr i64 NO_NODE = -1;
// the row of `carried` that holds the potentials
inline constexpr i64 PI = 2;

struct Node {
    i64 parent, child, next, previous, depth, upward;
};
static_assert(sizeof(Node) == 6 * sizeof(i64));

// What `links` and `carried` hold, by name.
struct Tree {
    Node* node;
    double *cost, *flow, *pi;
    i64 size;

    Tree(Matrix<i64> links, Matrix<double> carried)
        : node(reinterpret_cast<Node*>(links.data)),
          cost(carried.data),
          flow(carried.data + links.rows),
          pi(carried.data + PI * links.rows),
          size(links.rows) {}

    // Make a node the first child of another.
    void attach(i64 i, i64 parent) const {
        i64 child = node[parent].child;
        node[i].parent = parent, node[i].next = child, node[i].previous = NO_NODE;
        node[parent].child = i;
        if (child != NO_NODE) node[child].previous = i;
    }
    // Take a node from its parent's children.
    void detach(i64 i) const {
        i64 before = node[i].previous, after = node[i].next;
        (before == NO_NODE ? node[node[i].parent].child : node[before].next) = after;
        if (after != NO_NODE) node[after].previous = before;
    }
    // The next node of the part of the tree below `top`, parents first; NO_NODE after the last.
    i64 after(i64 i, i64 top) const {
        if (node[i].child != NO_NODE) return node[i].child;
        for (; i != top; i = node[i].parent)
            if (node[i].next != NO_NODE) return node[i].next;
        return NO_NODE;
    }
    // Depths and potentials of `top` and of what is below it, from its parent's; how many nodes that were.
    i64 update_below(i64 top) const {
        i64 count = 0;
        for (i64 i = top; i != NO_NODE; i = after(i, top), ++count) {
            i64 parent = node[i].parent;
            node[i].depth = node[parent].depth + 1;
            pi[i] = pi[parent] + (node[i].upward ? cost[i] : -cost[i]);
        }
        return count;
    }
};

inline bool fit_together(Matrix<i64> links, Matrix<double> carried) {
    return links.columns == 6 && carried.rows == 3 && carried.columns == links.rows;
}

// Whether `order` names every node once and each after its parent.
inline bool is_order(In<i64> parent, In<i64> order, Buffer<bool>& seen) {
    for (i64 k = 0; k < order.size; ++k) {
        i64 i = order[k];
        if (i < 0 || i >= order.size || seen[i]) return false;
        if (k > 0 && (parent[i] < 0 || parent[i] >= order.size || !seen[parent[i]])) return false;
        seen[i] = true;
    }
    return true;
}

// Whether the links are those of one tree: lists of children hold every node but the root, and depths count up, so that
// no walk along them is endless.
inline bool is_tree(Matrix<i64> links) {
    auto* node = reinterpret_cast<const Node*>(links.data);
    i64 n = links.rows, roots = 0;
    for (i64 i = 0; i < n; ++i) {
        auto [parent, child, next, previous, depth, upward] = node[i];
        for (i64 other : {parent, child, next, previous})
            if (other < NO_NODE || other >= n) return false;
        if (child != NO_NODE && (node[child].parent != i || node[child].previous != NO_NODE)) return false;
        if (parent == NO_NODE) {
            roots += 1;
            if (depth != 0 || next != NO_NODE || previous != NO_NODE) return false;
            continue;
        }
        if (depth < 1 || depth >= n || node[parent].depth != depth - 1) return false;
        if (next != NO_NODE && (node[next].parent != parent || node[next].previous != i)) return false;
        if ((previous == NO_NODE ? node[parent].child : node[previous].next) != i) return false;
    }
    return roots == 1;
}

// Flow (n,) from each node to its parent: the supply of its subtree, which a tree can carry in one way only.
inline Done tree_flow(In<i64> parent, In<i64> order, In<double> supply, Out<double> flow) {
    REQUIRE(parent.size == order.size && supply.size == order.size && flow.size == order.size);
    std::copy(supply.begin(), supply.end(), flow.begin());
    for (i64 k = order.size - 1; k > 0; --k) flow[parent[order[k]]] += flow[order[k]];
    return {};
}

// `links` and `carried` of a spanning tree whose arcs to the parents have these lengths and carry these supplies.
inline std::tuple<Buffer<i64>, Buffer<double>> tree_with_flow(In<i64> parent, In<i64> order, In<double> length,
                                                             In<double> supply) {
    i64 n = order.size;
    REQUIRE(n > 0 && parent.size == n && length.size == n && supply.size == n);
    Buffer<bool> seen(n, false);
    auto links = Buffer<i64>::table(n, 6, NO_NODE);
    auto carried = Buffer<double>::table(3, n, 0.0);
    REQUIRE_MEMORY(seen, links, carried);
    REQUIRE(is_order(parent, order, seen));
    Tree tree(links.matrix(), carried.matrix());
    tree_flow(parent, order, supply, {tree.flow, n});
    for (i64 k = n - 1; k > 0; --k) tree.attach(order[k], parent[order[k]]);
    for (i64 i = 0; i < n; ++i) {
        tree.node[i].upward = tree.flow[i] >= 0.0;
        tree.cost[i] = length[i];
        tree.flow[i] = std::abs(tree.flow[i]);
    }
    tree.node[order[0]].depth = 0;
    for (i64 i = tree.node[order[0]].child; i != NO_NODE; i = tree.node[i].next) tree.update_below(i);
    return {std::move(links), std::move(carried)};
}

// The arc of the tree that blocks more flow along an arc from tail to head; NO_NODE if none does.
struct Blocking {
    i64 out = NO_NODE, join = NO_NODE;
    double amount = INFINITE;
    bool below_head = false;

    Blocking(const Tree& tree, i64 a, i64 b) {
        i64 out_b = NO_NODE;
        double amount_b = INFINITE;
        while (a != b) {
            if (tree.node[a].depth >= tree.node[b].depth) {
                if (tree.node[a].upward && tree.flow[a] < amount) out = a, amount = tree.flow[a];
                a = tree.node[a].parent;
            } else {
                if (!tree.node[b].upward && tree.flow[b] <= amount_b) out_b = b, amount_b = tree.flow[b];
                b = tree.node[b].parent;
            }
        }
        join = a;
        below_head = amount_b <= amount;
        if (below_head) out = out_b, amount = amount_b;
    }
};

// Take an arc that pays into the tree; the work it was, in nodes. It is 0, and nothing has changed, where no arc of the
// tree blocks: costs are negative around a cycle then, or flows are no longer numbers.
inline i64 exchange(const Tree& tree, i64 tail, i64 head, double cost) {
    Blocking blocking(tree, tail, head);
    if (blocking.out == NO_NODE) return 0;
    for (i64 i = tail; i != blocking.join; i = tree.node[i].parent)
        tree.flow[i] += tree.node[i].upward ? -blocking.amount : blocking.amount;
    for (i64 i = head; i != blocking.join; i = tree.node[i].parent)
        tree.flow[i] += tree.node[i].upward ? blocking.amount : -blocking.amount;
    // the part that comes off hangs from the new arc: on the way to its old top every arc now points to the other side
    i64 top = blocking.below_head ? head : tail, parent = blocking.below_head ? tail : head;
    bool upward = !blocking.below_head;
    double flow = blocking.amount;
    for (i64 i = top;;) {
        i64 above = tree.node[i].parent;
        bool was_upward = tree.node[i].upward;
        tree.detach(i);
        tree.attach(i, parent);
        tree.node[i].upward = upward;
        std::swap(tree.flow[i], flow);
        std::swap(tree.cost[i], cost);
        if (i == blocking.out) return tree.update_below(top);
        upward = !was_upward, parent = i, i = above;
    }
}

// What rounding can have done to the difference of two potentials, each summed up along its path. An arc that pays less
// may be one of the tree, which would be exchanged for itself without end.
inline double rounding_error(const Tree& tree, i64 a, i64 b) {
    double sizes = static_cast<double>(tree.node[a].depth) * std::abs(tree.pi[a]) +
                   static_cast<double>(tree.node[b].depth) * std::abs(tree.pi[b]);
    return std::numeric_limits<double>::epsilon() * sizes;
}

// The first entry of a row with the largest gain  potential - distance - price  if that is more than `best`, which it
// replaces; else NO_NODE.
inline i64 best_entry(In<double> distance, const double* prices, double potential, double& best) {
    using V = Vec<LANES>;
    i64 j = 0;
    auto most = V::all(best);
    for (; j + LANES <= distance.size; j += LANES)
        most = larger(V::all(potential) - V::load(distance.data + j) - V::load(prices + j), most);
    double gain = most.largest();
    for (; j < distance.size; ++j) gain = std::max(gain, potential - distance[j] - prices[j]);
    if (!(gain > best)) return NO_NODE;
    best = gain;
    for (j = 0; potential - distance[j] - prices[j] != gain; ++j) {
    }
    return j;
}

struct Arc {
    i64 tail, head;
    double cost, gain;
};

// Exchanges until none of `count` candidates pays; false if the budget ran out. search() looks at the next `searched`
// of them, which takes `work`, and returns the best arc, with tail NO_NODE if none pays.
template <class Search>
bool improve(const Tree& tree, i64 count, i64 searched, i64 work, i64 budget, Search search) {
    i64 quiet = 0;
    while (quiet < count && budget > 0) {
        Arc best = search();
        quiet += searched;
        budget -= work;
        if (best.tail == NO_NODE || !(best.gain > rounding_error(tree, best.tail, best.head))) continue;
        i64 nodes = exchange(tree, best.tail, best.head, best.cost);
        budget -= nodes;
        if (nodes > 0) quiet = 0;
    }
    return quiet >= count;
}

// Exchanges until no entry of `distance` (n, m), from node i to node n + j, pays; false if the budget ran out. The best
// of some `rows` enters.
inline bool improve_plan(Matrix<const double> distance, Matrix<i64> links, Matrix<double> carried, i64 rows,
                         double tolerance, i64 budget) {
    i64 n = distance.rows, m = distance.columns;
    REQUIRE(fit_together(links, carried) && links.rows >= n && links.rows - n >= m);
    REQUIRE(0 < rows && rows <= n);
    REQUIRE(is_tree(links));
    Tree tree(links, carried);
    i64 at = 0;
    return improve(tree, n, rows, std::max<i64>(1, rows * m), budget, [&] {
        Arc best{NO_NODE, NO_NODE, 0.0, tolerance};
        for (i64 row = 0; row < rows; ++row) {
            i64 j = best_entry(distance.row(at), tree.pi + n, tree.pi[at], best.gain);
            if (j != NO_NODE) best.tail = at, best.head = n + j, best.cost = distance(at, j);
            at = at + 1 < n ? at + 1 : 0;
        }
        return best;
    });
}

// The same for a list of arcs; the best of a `block` enters.
inline bool improve_flow(In<i64> tail, In<i64> head, In<double> length, Matrix<i64> links, Matrix<double> carried,
                         i64 block, double tolerance, i64 budget) {
    REQUIRE(fit_together(links, carried) && head.size == tail.size && length.size == tail.size);
    REQUIRE(0 < block && block <= std::max<i64>(1, tail.size));
    REQUIRE(is_tree(links));
    REQUIRE(all_within(tail, 0, links.rows) && all_within(head, 0, links.rows));
    Tree tree(links, carried);
    i64 at = 0;
    return improve(tree, tail.size, block, block, budget, [&] {
        Arc best{NO_NODE, NO_NODE, 0.0, tolerance};
        for (i64 k = 0; k < block; ++k) {
            double gain = tree.pi[tail[at]] - tree.pi[head[at]] - length[at];
            if (gain > best.gain) best = {tail[at], head[at], length[at], gain};
            at = at + 1 < tail.size ? at + 1 : 0;
        }
        return best;
    });
}

// What these supplies (n,) cost on the tree, and how much of them would go against its arcs: rounding, if any.
inline std::tuple<double, double> tree_cost(Matrix<i64> links, Matrix<double> carried, i64 root, In<double> supply) {
    i64 n = links.rows, count = 0;
    REQUIRE(fit_together(links, carried) && supply.size == n);
    REQUIRE(is_tree(links));
    REQUIRE(0 <= root && root < n && links(root, 0) == NO_NODE);
    Buffer<i64> order(n);
    Buffer<double> net(n);
    REQUIRE_MEMORY(order, net);
    Tree tree(links, carried);
    for (i64 i = root; i != NO_NODE; i = tree.after(i, root)) order[count++] = i;
    std::copy(supply.begin(), supply.end(), net.data);
    double total = 0.0, against = 0.0;
    for (i64 k = n - 1; k > 0; --k) {
        i64 i = order[k];
        net[tree.node[i].parent] += net[i];
        total += std::abs(net[i]) * tree.cost[i];
        if ((net[i] > 0.0) != (tree.node[i].upward == 1)) against += std::abs(net[i]);
    }
    return {total, against};
}

inline const Kernel kernels[] = {
    kernel<tree_flow>("tree_flow", "parent order supply flow", "Flow from each node to its parent."),
    kernel<tree_with_flow>("tree_with_flow", "parent order length supply",
                           "links and carried of a spanning tree that carries these supplies."),
    kernel<improve_plan>("improve_plan", "distance links carried rows tolerance budget",
                         "Exchanges until no entry of the distances pays; False if the budget ran out."),
    kernel<improve_flow>("improve_flow", "tail head length links carried block tolerance budget",
                         "Exchanges until no arc of the list pays; False if the budget ran out."),
    kernel<tree_cost>("tree_cost", "links carried root supply",
                      "What supplies cost on the tree, and how much of them would go against its arcs."),
};

inline constexpr Constant constants[] = {{"NO_NODE", NO_NODE}, {"PI", PI}};

inline const Subject listed =
    subject("network_simplex", "Cheapest flows without capacities: the primal network simplex on a spanning tree.",
            kernels, constants);

}  // namespace cautious::network_simplex
