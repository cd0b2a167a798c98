// Products and solves with the Newton matrix of a separable problem over the balance of flow, without building it.
//
// Legend: the rows first[s] .. first[s+1]-1 of the sparse rows P are P(. | s, a) for the pairs of state s;
// B = gamma P - E, where E picks the state of a pair. The pairs of a state answer a change of their prices by
//
//     M_s = D - D 1 damp_s 1' D,     D = diag(free),
//
// the second part because of what the state as a whole pays. Nodes and arcs of a transport (tail, head, ease) hang on
// the states: state s is node at[s], and f (nodes,) are the nodes' prices. The Newton matrix is
//
//     | B' M B + ridge     -B' M E         |  | x |
//     | -E' M B            E' M E + N G N' |  | f |      N the incidence of the arcs, G = diag(ease).
#pragma once
#include "flow.hpp"
#include "vec.hpp"

namespace cautious::proximal {

using namespace flow;

// About the diagonals of B' M B and E' M E: exact but for successors that several pairs of a state share.
template <class I>
Done newton_diagonal(In<i64> first, Rows<I> p, double gamma, In<double> free, In<double> damp, Out<double> out,
                     Out<double> marginal) {
    i64 n_states = out.size;
    REQUIRE(pairs_fit(first, p, n_states) && free.size == p.count());
    REQUIRE(damp.size == n_states && marginal.size == n_states);
    out.fill(0.0);
    for (i64 s = 0; s < n_states; ++s) {
        double total = 0.0, own_sum = 0.0, own_square = 0.0;
        for (i64 row = first[s]; row < first[s + 1]; ++row) {
            double weight = free[row], own = -1.0;
            double left = weight * std::max(1.0 - damp[s] * weight, 0.0);
            for (i64 k = p.first(row); k < p.last(row); ++k) {
                double carried = gamma * p.data[k];
                if (p.indices[k] == s)
                    own += carried;
                else
                    out[p.indices[k]] += left * (carried * carried);
            }
            total += weight;
            own_sum += weight * own;
            own_square += weight * own * own;
        }
        out[s] += std::max(own_square - damp[s] * own_sum * own_sum, 0.0);
        marginal[s] = std::max(total - damp[s] * total * total, 0.0);
    }
    return {};
}

// The Newton matrix; `change` holds numbers of one state's pairs.
template <class I>
struct NewtonMatrix {
    In<i64> first;
    Rows<I> p;
    double gamma;
    In<double> free, damp, ridge;
    In<i64> at, tail, head;
    In<double> ease;
    Buffer<double> change{};

    bool fits(i64 n_states, i64 n_nodes) const {
        return pairs_fit(first, p, n_states) && free.size == p.count() && damp.size == n_states &&
               ridge.size == n_states && (n_nodes == 0 || at.size == n_states) && tail.size == ease.size &&
               head.size == ease.size && (n_nodes > 0 || ease.size == 0);
    }
    bool make_room() {
        i64 most = 0;
        for (i64 s = 0; s + 1 < first.size; ++s) most = std::max(most, first[s + 1] - first[s]);
        change = Buffer<double>(most);
        return all_made(change);
    }
    // (out, on_nodes) = the Newton matrix times (x, f)
    void multiply(In<double> x, In<double> f, Out<double> out, Out<double> on_nodes) const {
        for (i64 s = 0; s < x.size; ++s) out[s] = ridge[s] * x[s];
        on_nodes.fill(0.0);
        for (i64 k = 0; k < ease.size; ++k) {
            double carried = ease[k] * (f[tail[k]] - f[head[k]]);
            on_nodes[tail[k]] += carried;
            on_nodes[head[k]] -= carried;
        }
        for (i64 s = 0; s < x.size; ++s) {
            double moved = add_state(s, x, f.size > 0 ? x[s] + f[at[s]] : x[s], out);
            if (f.size > 0) on_nodes[at[s]] -= moved;
        }
    }
    // With y = M (B x - E f) on the pairs of state s, whose prices fall by `own`: add B' y to out; the sum of y.
    double add_state(i64 s, In<double> x, double own, Out<double> out) const {
        i64 start = first[s], last = first[s + 1];
        double total = 0.0, moved = 0.0;
        for (i64 row = start; row < last; ++row) {
            change[row - start] = free[row] * (gamma * expectation(p, x, row) - own);
            total += change[row - start];
        }
        double correction = damp[s] * total;
        for (i64 row = start; row < last; ++row) {
            double mass = change[row - start] - correction * free[row];
            moved += mass;
            add_row(p, gamma * mass, row, out);
        }
        out[s] -= moved;
        return moved;
    }
};

// (out, on_nodes) = the Newton matrix times (x, f).
template <class I>
Done apply_newton(In<i64> first, Rows<I> p, double gamma, In<double> free, In<double> damp, In<double> ridge,
                  In<i64> at, In<i64> tail, In<i64> head, In<double> ease, In<double> x, In<double> f, Out<double> out,
                  Out<double> on_nodes) {
    NewtonMatrix<I> matrix{first, p, gamma, free, damp, ridge, at, tail, head, ease};
    REQUIRE(matrix.fits(x.size, f.size) && out.size == x.size && on_nodes.size == f.size);
    if (!matrix.make_room()) return refuse(Fault::memory, nullptr);
    matrix.multiply(x, f, out, on_nodes);
    return {};
}

// The diagonal, each state together with its node. A common change of all states' prices is the slowest there is, and
// is therefore solved for by itself.
struct Preconditioner {
    In<i64> at;
    In<double> own, node, across;
    double common;

    // z = the preconditioner times r; the results are <r, z> and the 1-norm of r
    std::pair<double, double> apply(In<double> r, In<double> r_nodes, Out<double> z, Out<double> z_nodes) const {
        double inner = 0.0, size = 0.0, total = 0.0;
        for (i64 i = 0; i < z_nodes.size; ++i) {
            z_nodes[i] = r_nodes[i] / node[i];
            size += std::abs(r_nodes[i]);
        }
        for (i64 s = 0; s < z.size; ++s) {
            total += r[s];
            size += std::abs(r[s]);
        }
        total *= common;
        for (i64 s = 0; s < z.size; ++s) {
            if (z_nodes.size > 0) {
                i64 i = at[s];
                double determinant = own[s] * node[i] - across[s] * across[s];
                z[s] = (node[i] * r[s] - across[s] * r_nodes[i]) / determinant + total;
                z_nodes[i] = (own[s] * r_nodes[i] - across[s] * r[s]) / determinant;
            } else {
                z[s] = r[s] / own[s] + total;
            }
            inner += r[s] * z[s];
        }
        for (i64 i = 0; i < z_nodes.size; ++i) inner += r_nodes[i] * z_nodes[i];
        return {inner, size};
    }
};

// Steps of preconditioned conjugate gradients; the results are <r, z> to go on with (0 when done) and the steps taken.
// `vectors` (3, S) and `node_vectors` (3, nodes) hold solution, residual and direction; an `inner` of 0 begins.
template <class I>
std::tuple<double, i64> conjugate_gradients(In<i64> first, Rows<I> p, double gamma, In<double> free, In<double> damp,
                                            In<double> ridge, In<i64> at, In<i64> tail, In<i64> head, In<double> ease,
                                            In<double> own, In<double> node, In<double> across, double common,
                                            Matrix<double> vectors, Matrix<double> node_vectors, double inner,
                                            double stop, i64 steps) {
    NewtonMatrix<I> matrix{first, p, gamma, free, damp, ridge, at, tail, head, ease};
    i64 n_states = vectors.columns, n_nodes = node_vectors.columns;
    REQUIRE(vectors.rows == 3 && node_vectors.rows == 3 && matrix.fits(n_states, n_nodes) && steps >= 0);
    REQUIRE(own.size == n_states && across.size == n_states && node.size == n_nodes);
    auto x = vectors.row(0), r = vectors.row(1), direction = vectors.row(2);
    auto x_nodes = node_vectors.row(0), r_nodes = node_vectors.row(1), direction_nodes = node_vectors.row(2);
    Buffer<double> z(n_states), z_nodes(n_nodes), out(n_states), on_nodes(n_nodes);
    REQUIRE_MEMORY(z, z_nodes, out, on_nodes);
    if (!matrix.make_room()) return refuse(Fault::memory, nullptr);
    Preconditioner preconditioner{at, own, node, across, common};
    for (i64 number = 0; number < steps; ++number) {
        auto [fresh, size] = preconditioner.apply(r, r_nodes, z, z_nodes);
        if (size <= stop || !(fresh > 0.0)) return {0.0, number};
        double ratio = inner > 0.0 ? fresh / inner : 0.0;
        inner = fresh;
        scale_and_add(direction, ratio, z);
        scale_and_add(direction_nodes, ratio, z_nodes);
        matrix.multiply(direction, direction_nodes, out, on_nodes);
        double curvature = dot(direction, out) + dot(direction_nodes, on_nodes);
        if (!(curvature > 0.0)) return {0.0, number};
        double length = inner / curvature;
        add_multiple(x, length, direction);
        add_multiple(r, -length, out);
        add_multiple(x_nodes, length, direction_nodes);
        add_multiple(r_nodes, -length, on_nodes);
    }
    return {inner, steps};
}

// Mark pairs that are more than a `share` of the diagonal `own` somewhere; the results are how many, and their
// transitions. A pair of weight w adds w b b' to the matrix, b its row of B. Where w b_j^2 is a small share of every
// diagonal entry j it touches, the matrix, scaled to a unit diagonal, hardly notices that the pair is missing.
template <class I>
std::tuple<i64, i64> mark_heavy(In<i64> first, Rows<I> p, double gamma, In<double> free, In<double> own, double share,
                                Out<bool> heavy) {
    REQUIRE(pairs_fit(first, p, own.size) && free.size == p.count() && heavy.size == p.count());
    i64 n_rows = 0, n_entries = 0;
    for (i64 s = 0; s < own.size; ++s)
        for (i64 row = first[s]; row < first[s + 1]; ++row) {
            double most = 1.0 / own[s];
            for (i64 k = p.first(row); k < p.last(row); ++k) {
                double carried = gamma * p.data[k];
                double part = carried * carried / own[p.indices[k]];
                most = part > most ? part : most;
            }
            bool counts = free[row] * most > share;
            heavy[row] = counts;
            n_rows += counts;
            n_entries += counts ? p.length(row) : 0;
        }
    return {n_rows, n_entries};
}

// The marked pairs alone, with their transitions and weights.
template <class I>
Done copy_heavy(In<i64> first, Rows<I> p, In<double> free, In<bool> heavy, Out<i64> new_first, Out<I> new_indptr,
                Out<I> new_indices, Out<double> new_data, Out<double> new_free) {
    REQUIRE(pairs_fit(first, p, first.size - 1) && free.size == p.count() && heavy.size == p.count());
    REQUIRE(new_first.size == first.size && new_indptr.size == new_free.size + 1 && new_indices.size == new_data.size);
    i64 n_rows = 0, n = 0;
    new_first[0] = new_indptr[0] = 0;
    for (i64 s = 0; s + 1 < first.size; ++s) {
        for (i64 row = first[s]; row < first[s + 1]; ++row) {
            if (!heavy[row]) continue;
            REQUIRE(n_rows < new_free.size && n + p.length(row) <= new_data.size);
            for (i64 k = p.first(row); k < p.last(row); ++k, ++n) {
                new_indices[n] = p.indices[k];
                new_data[n] = p.data[k];
            }
            new_free[n_rows++] = free[row];
            new_indptr[n_rows] = static_cast<I>(n);
        }
        new_first[s + 1] = n_rows;
    }
    return {};
}

inline const Kernel kernels[] = {
    kernel<newton_diagonal<i32>, newton_diagonal<i64>>(
        "newton_diagonal", "first indptr indices data gamma free damp out marginal",
        "About the diagonals of B' M B and E' M E: exact but for successors that several pairs of a state share."),
    kernel<apply_newton<i32>, apply_newton<i64>>(
        "apply_newton", "first indptr indices data gamma free damp ridge at tail head ease x f out on_nodes",
        "(out, on_nodes) = the Newton matrix times (x, f)."),
    kernel<conjugate_gradients<i32>, conjugate_gradients<i64>>(
        "conjugate_gradients",
        "first indptr indices data gamma free damp ridge at tail head ease own node across common vectors node_vectors "
        "inner stop steps",
        "Steps of preconditioned conjugate gradients; <r, z> to go on with (0 when done) and the steps taken."),
    kernel<mark_heavy<i32>, mark_heavy<i64>>(
        "mark_heavy", "first indptr indices data gamma free own share heavy",
        "Mark pairs that are more than a share of the diagonal somewhere; how many, and their transitions."),
    kernel<copy_heavy<i32>, copy_heavy<i64>>(
        "copy_heavy",
        "first indptr indices data free heavy new_first new_indptr new_indices new_data new_free",
        "The marked pairs alone, with their transitions and weights."),
};

inline const Subject listed =
    subject("proximal", "Products and solves with the Newton matrix of a separable problem.", kernels);

}  // namespace cautious::proximal
