// One step of planning, and of following a policy, on pairs of a state and a target.
//
// The target x is what is still to be earned. A step that pays rho leads from x to x - rho, which is arithmetic: only
// values at the nodes of a grid are kept, and no transition of targets is ever written down. Between two nodes a rule
// says what is known of the value there.
//
// Legend: row s*A + a of the sparse rows P is P(. | s, a), `paid` its reward for every entry, `scale` what a reward of
// this step counts; V (S, n) values at the nodes of the next step.
#pragma once
#include "vec.hpp"
#include "binding.hpp"

namespace cautious::targets {

// The value at a target between two nodes is bounded by ...
inline constexpr i64 CHORD = 0;        // the chord: V is convex in x
inline constexpr i64 EXP_CHORD = 1;    // the chord over exp(parameter x): V is convex in that
inline constexpr i64 LIPSCHITZ = 2;    // V falls, by at most `parameter` a unit
inline constexpr i64 LOWER_NODE = 3;   // the value at the node below: V falls
inline constexpr i64 UPPER_NODE = 4;   // the value at the node above

// exponents beyond this are cut off: such a loss is larger than any that can be chosen
inline constexpr double LARGEST_EXPONENT = 300.0;

// Nodes that ascend; `step` is the distance between neighbours where all are alike, and 0 elsewhere. A place that is
// less than `snap` from a node is the node: where targets lie on a lattice, sums of rewards round.
struct Grid {
    const double* nodes;
    i64 count;
    double step, snap;
    // one over the distances of uneven nodes, for planning
    const double* inverse_widths = nullptr;

    // The node at or below a target, -1 where there is none, and which share of the way it is to the next one. The
    // search begins at the node `from`.
    std::pair<i64, double> place(double x, i64 from) const {
        if (step > 0) {
            double at = (x - nodes[0]) / step;
            if (!(at > -1)) return {-1, 0.5};
            if (!(at < static_cast<double>(count))) return {count - 1, 0.5};
            double node = std::floor(at), share = at - node;
            if (share * step < snap) share = 0;
            if ((1 - share) * step < snap) share = 0, node += 1;
            return {static_cast<i64>(node), share};
        }
        i64 i = std::max<i64>(from, -1);
        while (i + 1 < count && nodes[i + 1] <= x + snap) ++i;
        if (i < 0) return {-1, 0.5};
        if (x - nodes[i] <= snap) return {i, 0.0};
        return {i, i + 1 < count ? (x - nodes[i]) / (nodes[i + 1] - nodes[i]) : 0.5};
    }
    double width(i64 i) const { return step > 0 ? step : nodes[i + 1] - nodes[i]; }
};

inline bool is_grid(const Grid& grid) {
    return grid.count > 0 && std::isfinite(grid.nodes[0]) && std::isfinite(grid.nodes[grid.count - 1]) &&
           grid.step >= 0 && grid.snap >= 0 &&
           (grid.step > 0 || std::is_sorted(grid.nodes, grid.nodes + grid.count));
}

struct Rule {
    i64 kind;
    double parameter;
    Grid grid;

    // The weight of the upper node, for a target that is this share of the way above the lower one.
    double weight(double share, double width) const {
        if (kind == CHORD) return share;
        if (kind == EXP_CHORD) {
            double wide = parameter * width;
            return wide > LARGEST_EXPONENT ? std::exp(wide * (share - 1))
                                           : std::expm1(wide * share) / std::expm1(wide);
        }
        return kind == UPPER_NODE && share > 0 ? 1.0 : 0.0;
    }
    // Beyond the grid the value is below a line in x or in exp(parameter x), or a step, and below what is known anyway.
    double outside(double x, double value, double edge, double slope, double cap, bool below_square) const {
        double away = x - edge;
        if (kind == EXP_CHORD) away = std::expm1(std::min(parameter * away, LARGEST_EXPONENT));
        if (kind >= LOWER_NODE) away = 1;
        double line = away == 0 ? value : value + slope * away;
        return std::min(line, below_square ? x * x : cap);
    }
};

// total[j] += chance * V(node j - rho) for one entry of a row.
inline void add_entry(const Rule& rule, const Grid& own, In<double> v, double chance, double rho, double left,
                      double right, double cap, bool below_square, double* total) {
    const Grid& next = rule.grid;
    i64 last = next.count - 1, found = -1;
    auto scalar = [&](i64 j) {
        double x = own.nodes[j] - rho;
        auto [i, share] = next.place(x, found);
        found = i;
        if (i < 0) return rule.outside(x, v[0], next.nodes[0], left, cap, below_square);
        if (i > last || (i == last && share > 0))
            return rule.outside(x, v[last], next.nodes[last], right, cap, below_square);
        if (share == 0) return v[i];
        double width = next.width(i);
        if (rule.kind == LIPSCHITZ) return std::min(v[i], v[i + 1] + rule.parameter * (1 - share) * width);
        double w = rule.weight(share, width);
        return (1 - w) * v[i] + w * v[i + 1];
    };
    if (next.step == 0 && rule.kind == CHORD && next.snap == 0) {
        // uneven nodes: those of both grids are passed once
        i64 j = 0;
        for (; j < own.count && own.nodes[j] - rho < next.nodes[0]; ++j) total[j] += chance * scalar(j);
        for (i64 i = 0; j < own.count; ++j) {
            double x = own.nodes[j] - rho;
            while (i < last && next.nodes[i + 1] <= x) ++i;
            if (i == last) break;
            total[j] += chance * (v[i] + (x - next.nodes[i]) * next.inverse_widths[i] * (v[i + 1] - v[i]));
        }
        for (; j < own.count; ++j) total[j] += chance * scalar(j);
        return;
    }
    double place = (own.nodes[0] - rho - next.nodes[0]) / next.step;
    if (own.step != next.step || own.step == 0 || !std::isfinite(place)) {
        for (i64 j = 0; j < own.count; ++j) total[j] += chance * scalar(j);
        return;
    }
    // equal steps: every node is the same share of a step above another one
    double node = std::floor(place), share = place - node;
    if (share * next.step < next.snap) share = 0;
    if ((1 - share) * next.step < next.snap) share = 0, node += 1;
    double n = static_cast<double>(own.count), most = static_cast<double>(last) + (share == 0 ? 1.0 : 0.0);
    i64 begin = static_cast<i64>(std::clamp(-node, 0.0, n));
    i64 end = std::max(begin, static_cast<i64>(std::clamp(most - node, 0.0, n)));
    for (i64 j = 0; j < begin; ++j) total[j] += chance * scalar(j);
    for (i64 j = end; j < own.count; ++j) total[j] += chance * scalar(j);
    if (begin == end) return;
    const double* at = v.data + (static_cast<i64>(node) + begin) - begin;
    if (share == 0) {
        by_lanes(begin, end, [=]<class V>(V, i64 j) {
            multiply_add(V::all(chance), V::load(at + j), V::load(total + j)).store(total + j);
        });
    } else if (rule.kind == LIPSCHITZ) {
        double rise = rule.parameter * (1 - share) * next.step;
        by_lanes(begin, end, [=]<class V>(V, i64 j) {
            V lower = V::load(at + j), upper = V::load(at + j + 1) + V::all(rise);
            V least = V::all(0.0) - larger(V::all(0.0) - lower, V::all(0.0) - upper);
            multiply_add(V::all(chance), least, V::load(total + j)).store(total + j);
        });
    } else {
        double w = rule.weight(share, next.step), first = chance * (1 - w), second = chance * w;
        by_lanes(begin, end, [=]<class V>(V, i64 j) {
            V sum = multiply_add(V::all(first), V::load(at + j), V::load(total + j));
            multiply_add(V::all(second), V::load(at + j + 1), sum).store(total + j);
        });
    }
}

// values (S, n) and the best actions (S, n) of the states from `first` to `last` at the nodes of their own grid:
// the largest of  constant + slope x + E[V(x - scale paid)]  over the allowed pairs. States without one get zeros.
template <class I>
Done plan_step(Rows<I> p, In<double> paid, In<bool> allowed, In<double> constant, In<double> slope, double scale,
               Matrix<const double> v, In<double> next_nodes, double next_step, In<double> left, In<double> right, In<double> cap, i64 kind,
               double parameter, bool below_square, double snap, In<double> nodes, double step, Matrix<double> values,
               Matrix<i32> actions, i64 first, i64 last) {
    i64 n_states = values.rows, n_actions = evenly(allowed.size, n_states), n = values.columns;
    REQUIRE(n_actions > 0 && allowed.size == p.count() && paid.size == p.data.size);
    REQUIRE(constant.size == allowed.size && slope.size == allowed.size);
    REQUIRE(v.rows == n_states && left.size == n_states && right.size == n_states);
    REQUIRE(cap.size == n_states);
    REQUIRE(actions.rows == n_states && actions.columns == n);
    REQUIRE(kind >= CHORD && kind <= UPPER_NODE && parameter >= 0 && 0 <= first && first <= last && last <= n_states);
    REQUIRE(nodes.size == n && next_nodes.size == v.columns);
    Grid own{nodes.data, n, step, snap};
    Rule rule{kind, parameter, {next_nodes.data, v.columns, next_step, snap}};
    REQUIRE(is_grid(own) && is_grid(rule.grid));
    Buffer<double> inverse_widths(next_step > 0 ? 0 : v.columns);
    if (next_step == 0) {
        REQUIRE_MEMORY(inverse_widths);
        for (i64 i = 0; i + 1 < v.columns; ++i) inverse_widths[i] = 1 / (next_nodes[i + 1] - next_nodes[i]);
        rule.grid.inverse_widths = inverse_widths.data;
    }
    // a piece of the grid at a time, so that its sums stay in the cache
    constexpr i64 PIECE = 2048;
    Buffer<double> total(std::min(n, PIECE));
    REQUIRE_MEMORY(total);
    for (i64 s = first; s < last; ++s) {
        auto best = values.row(s);
        auto choice = actions.row(s);
        bool any = false;
        for (i64 from = 0; from < n; from += PIECE) {
            Grid piece{own.nodes + from, std::min(PIECE, n - from), step, snap};
            any = false;
            for (i64 a = 0; a < n_actions; ++a) {
                i64 row = s * n_actions + a;
                if (!allowed[row]) continue;
                for (i64 j = 0; j < piece.count; ++j) total[j] = constant[row] + slope[row] * piece.nodes[j];
                for (i64 k = p.first(row); k < p.last(row); ++k) {
                    i64 next = p.indices[k];
                    add_entry(rule, piece, v.row(next), p.data[k], scale * paid[k], left[next], right[next], cap[next],
                              below_square, total.data);
                }
                for (i64 j = 0; j < piece.count; ++j) {
                    if (any && !(total[j] > best[from + j])) continue;
                    best[from + j] = total[j];
                    choice[from + j] = static_cast<i32>(a);
                }
                any = true;
            }
        }
        if (any) continue;
        best.fill(0.0);
        choice.fill(0);
    }
    return {};
}

// The node nearest to a target, or the one at or above it.
inline i64 nearest(const Grid& grid, double x, bool to_upper) {
    i64 from = -1;
    if (grid.step == 0) from = std::upper_bound(grid.nodes, grid.nodes + grid.count, x) - grid.nodes - 1;
    auto [i, share] = grid.place(x, from);
    if (i < 0) return 0;
    return std::min(i + (to_upper ? share > 0 : share > 0.5), grid.count - 1);
}

// What a cell keeps, beside its mass, of the true targets of those who are in a state and remember a node: the sums of
// the deviations from the node, of their squares and of their exponentials, and the range of the deviations.
enum Kept : i64 { DEVIATION, SQUARE, POWER, LEAST, MOST, KEPT };

// Where a policy with memory goes in one step. Row s n + j of the cells is that of state s and node j; most have no mass,
// and what they keep is never read nor written. All memory moves to the nearest node, or to the one above. The action of
// a cell is the one in `actions` (S, n), or drawn by the `chances` (S*A,) of its state where there are some. Exponentials
// are kept with a `rate`. The next cells begin with zeros; `occupancy` (S*A,) gets the mass of the pairs.
//
// Where the least and the most are given that can still be earned from each next state (S,), three blocks of cells follow
// each other: those whose targets may or may not be reached, those that are surely reached, and those that cannot be. The
// last nodes of a grid stand for all targets beyond them, and one interval around both kinds would say little.
template <class I>
Done follow_step(Rows<I> p, In<double> paid, double scale, Matrix<const i32> actions, In<double> chances,
                 In<double> nodes, double step, In<double> mass, Matrix<const double> cells, double rate,
                 In<double> next_nodes, double next_step, bool to_upper, double snap, In<double> least, In<double> most,
                 Out<double> next_mass, Matrix<double> next_cells, Out<double> occupancy) {
    i64 n_states = actions.rows, n = nodes.size, n_actions = evenly(occupancy.size, n_states);
    i64 blocks = least.size == 0 ? 1 : 3, block = n_states * n, next_block = n_states * next_nodes.size;
    REQUIRE(n_actions > 0 && occupancy.size == p.count() && paid.size == p.data.size && rate >= 0);
    REQUIRE(most.size == least.size && (least.size == 0 || least.size == n_states));
    REQUIRE(cells.rows == blocks * block && cells.columns == KEPT && next_cells.columns == KEPT);
    REQUIRE(mass.size == cells.rows && next_mass.size == next_cells.rows);
    REQUIRE(next_cells.rows == blocks * next_block && (chances.size == 0 || chances.size == occupancy.size));
    REQUIRE(chances.size > 0 || (actions.columns == n && std::all_of(actions.data, actions.data + n_states * n,
                                                                   [=](i32 a) { return a >= 0 && a < n_actions; })));
    Grid own{nodes.data, n, step, snap}, next{next_nodes.data, next_nodes.size, next_step, snap};
    REQUIRE(is_grid(own) && is_grid(next));
    auto move = [&](i64 row, i64 from_block, double m, const double* from, double node, double share) {
        occupancy[row] += share * m;
        for (i64 k = p.first(row); k < p.last(row); ++k) {
            double x = node - scale * paid[k], chance = share * p.data[k];
            if (!(chance > 0)) continue;
            i64 s = p.indices[k], i = nearest(next, x, to_upper), to_block = from_block;
            if (blocks > 1 && from_block == 0)
                to_block = x + from[MOST] <= least[s] ? 1 : x + from[LEAST] >= most[s] ? 2 : 0;
            i64 cell = to_block * next_block + s * next.count + i;
            double* to = next_cells.data + cell * KEPT;
            double off = x - next.nodes[i];
            bool first = !(next_mass[cell] > 0);
            if (first) std::fill(to, to + KEPT, 0.0);
            next_mass[cell] += chance * m;
            to[DEVIATION] += chance * (from[DEVIATION] + m * off);
            to[SQUARE] += chance * (from[SQUARE] + 2 * off * from[DEVIATION] + m * off * off);
            if (rate > 0) to[POWER] += chance * std::exp(rate * off) * from[POWER];
            to[LEAST] = first ? from[LEAST] + off : std::min(to[LEAST], from[LEAST] + off);
            to[MOST] = first ? from[MOST] + off : std::max(to[MOST], from[MOST] + off);
        }
    };
    for (i64 b = 0; b < blocks; ++b) {
        for (i64 s = 0; s < n_states; ++s) {
            for (i64 j = 0; j < n; ++j) {
                double m = mass[b * block + s * n + j];
                if (!(m > 0)) continue;
                const double* from = cells.data + (b * block + s * n + j) * KEPT;
                if (chances.size == 0) {
                    move(s * n_actions + actions(s, j), b, m, from, own.nodes[j], 1.0);
                    continue;
                }
                for (i64 row = s * n_actions; row < (s + 1) * n_actions; ++row)
                    if (chances[row] > 0) move(row, b, m, from, own.nodes[j], chances[row]);
            }
        }
    }
    return {};
}

// One step of mass (S, n) that is shared by the two nodes next to a target, as chords share their values: what a value
// between two nodes is off by counts as much as this mass. Masses below `least` are left out.
template <class I>
Done split_step(Rows<I> p, In<double> paid, double scale, Matrix<const i32> actions, In<double> nodes, double step,
                Matrix<const double> mass, double least, In<double> next_nodes, double next_step,
                Matrix<double> next_mass) {
    i64 n_states = mass.rows, n = mass.columns, n_actions = evenly(p.count(), n_states);
    REQUIRE(n_actions > 0 && paid.size == p.data.size && nodes.size == n && next_mass.rows == n_states);
    REQUIRE(actions.rows == n_states && actions.columns == n && next_mass.columns == next_nodes.size && least >= 0);
    Grid own{nodes.data, n, step, 0.0}, next{next_nodes.data, next_nodes.size, next_step, 0.0};
    REQUIRE(is_grid(own) && is_grid(next));
    for (i64 s = 0; s < n_states; ++s) {
        for (i64 j = 0; j < n; ++j) {
            double m = mass(s, j);
            if (!(m > least)) continue;
            REQUIRE(actions(s, j) >= 0 && actions(s, j) < n_actions);
            i64 row = s * n_actions + actions(s, j);
            for (i64 k = p.first(row); k < p.last(row); ++k) {
                double x = own.nodes[j] - scale * paid[k];
                i64 from = -1;
                if (next.step == 0) from = std::upper_bound(next.nodes, next.nodes + next.count, x) - next.nodes - 1;
                auto [i, share] = next.place(x, from);
                auto to = next_mass.row(p.indices[k]);
                if (i < 0 || i + 1 >= next.count) {
                    to[i < 0 ? 0 : next.count - 1] += m * p.data[k];
                    continue;
                }
                to[i] += m * p.data[k] * (1 - share);
                to[i + 1] += m * p.data[k] * share;
            }
        }
    }
    return {};
}

inline const Constant constants[] = {{"CHORD", CHORD},
                                     {"EXP_CHORD", EXP_CHORD},
                                     {"LIPSCHITZ", LIPSCHITZ},
                                     {"LOWER_NODE", LOWER_NODE},
                                     {"UPPER_NODE", UPPER_NODE}};

inline const Kernel kernels[] = {
    kernel<plan_step<i32>, plan_step<i64>>(
        "plan_step",
        "indptr indices data paid allowed constant slope scale v next_nodes next_step left right cap kind parameter "
        "below_square snap nodes step values actions first last",
        "values and actions (S, n): the best of constant + slope x + E[V(x - scale paid)] at the nodes x."),
    kernel<follow_step<i32>, follow_step<i64>>(
        "follow_step",
        "indptr indices data paid scale actions chances nodes step mass cells rate next_nodes next_step to_upper "
        "snap least most next_mass next_cells occupancy",
        "Where a policy with memory goes in one step, and the moments of the targets."),
    kernel<split_step<i32>, split_step<i64>>(
        "split_step", "indptr indices data paid scale actions nodes step mass least next_nodes next_step next_mass",
        "One step of mass (S, n) that is shared by the nodes next to a target."),
};

inline const Subject listed = subject("targets", "Planning on pairs of a state and a target.", kernels, constants);

}  // namespace cautious::targets
