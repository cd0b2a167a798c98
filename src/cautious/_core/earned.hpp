// What a policy with memory has earned, told apart more finely than it remembers.
//
// Memory is a node of a grid, and moves as in targets.hpp. Beside it the sum of the rewards is kept in bins of one
// width. A row is a pair of a state and a node, s n + j, and owns the bins `low` to `high` (none if high < low): the cell
// of bin b is at `place + b - low`. Every cell of a row moves by the same number of bins, so that the loops are those
// of vectors. A cell keeps its mass, the sums of deviations from its bin and of their squares, and their range.
//
// Legend: as in targets.hpp; `width` that of a bin.
#pragma once
#include "targets.hpp"

namespace cautious::earned {

// so many bins are still told apart by doubles
inline constexpr double MOST_BINS = 1e15;

enum Kept : i64 { MASS, DEVIATION, SQUARE, LEAST, MOST, KEPT };

// How the rows move: for each outcome of the action of a row, f(row of the next step, bins, what rounding leaves, chance).
template <class I, class F>
void each_move(const Rows<I>& p, In<double> paid, double scale, i64 row, double node, const targets::Grid& next,
               bool to_upper, double width, F f) {
    for (i64 k = p.first(row); k < p.last(row); ++k) {
        if (!(p.data[k] > 0)) continue;
        double earned = scale * paid[k], bins = std::clamp(std::nearbyint(earned / width), -MOST_BINS, MOST_BINS);
        i64 i = targets::nearest(next, node - earned, to_upper);
        f(p.indices[k] * next.count + i, static_cast<i64>(bins), earned - bins * width, p.data[k]);
    }
}

// The bins that rows lead to; the next ones begin with none.
template <class I>
Done reach_bins(Rows<I> p, In<double> paid, double scale, Matrix<const i32> actions, In<double> nodes, double step,
                In<double> next_nodes, double next_step, bool to_upper, double snap, double width, In<i64> low,
                In<i64> high, Out<i64> next_low, Out<i64> next_high) {
    i64 n = actions.columns, n_actions = evenly(p.count(), actions.rows), rows = actions.rows * n;
    REQUIRE(n_actions > 0 && n == nodes.size && paid.size == p.data.size && width > 0);
    REQUIRE(low.size == rows && high.size == rows && next_low.size == actions.rows * next_nodes.size);
    REQUIRE(next_high.size == next_low.size);
    targets::Grid next{next_nodes.data, next_nodes.size, next_step, snap};
    REQUIRE(targets::is_grid(next) && targets::is_grid({nodes.data, n, step, snap}));
    for (i64 r = 0; r < rows; ++r) {
        if (high[r] < low[r]) continue;
        i64 a = actions.data[r];
        REQUIRE(a >= 0 && a < n_actions);
        each_move(p, paid, scale, r / n * n_actions + a, nodes[r % n], next, to_upper, width,
                  [&](i64 to, i64 bins, double, double) {
                      next_low[to] = std::min(next_low[to], low[r] + bins);
                      next_high[to] = std::max(next_high[to], high[r] + bins);
                  });
    }
    return {};
}

// Adds the cells of a row to those that they move to.
inline void add_cells(Matrix<const double> from, i64 first, i64 count, double chance, double off, Matrix<double> to,
                      i64 next_first) {
    auto own = [&](i64 kept) { return from.data + kept * from.columns + first; };
    auto next = [&](i64 kept) { return to.data + kept * to.columns + next_first; };
    const double *mass = own(MASS), *deviation = own(DEVIATION), *square = own(SQUARE);
    const double *least = own(LEAST), *most = own(MOST);
    double *__restrict__ next_mass = next(MASS), *__restrict__ next_deviation = next(DEVIATION);
    double *__restrict__ next_square = next(SQUARE), *__restrict__ next_least = next(LEAST);
    double* __restrict__ next_most = next(MOST);
    for (i64 j = 0; j < count; ++j) {
        next_mass[j] += chance * mass[j];
        next_deviation[j] += chance * (deviation[j] + mass[j] * off);
        next_square[j] += chance * (square[j] + 2 * off * deviation[j] + mass[j] * off * off);
        next_least[j] = std::min(next_least[j], least[j] + off);
        next_most[j] = std::max(next_most[j], most[j] + off);
    }
}

// One step of all cells, (KEPT, n): the next ones begin with no mass, and with infinite ends the wrong way round.
template <class I>
Done move_cells(Rows<I> p, In<double> paid, double scale, Matrix<const i32> actions, In<double> nodes, double step,
                In<double> next_nodes, double next_step, bool to_upper, double snap, double width, In<i64> low,
                In<i64> high, In<i64> place, Matrix<const double> cells, In<i64> next_low, In<i64> next_high,
                In<i64> next_place, Matrix<double> next_cells) {
    i64 n = actions.columns, n_actions = evenly(p.count(), actions.rows), rows = actions.rows * n;
    REQUIRE(n_actions > 0 && n == nodes.size && paid.size == p.data.size && width > 0);
    REQUIRE(low.size == rows && high.size == rows && place.size == rows && cells.rows == KEPT);
    REQUIRE(next_low.size == actions.rows * next_nodes.size && next_high.size == next_low.size);
    REQUIRE(next_place.size == next_low.size && next_cells.rows == KEPT);
    targets::Grid next{next_nodes.data, next_nodes.size, next_step, snap};
    REQUIRE(targets::is_grid(next) && targets::is_grid({nodes.data, n, step, snap}));
    bool fits = true;
    for (i64 r = 0; r < rows; ++r) {
        i64 a = actions.data[r], count = high[r] - low[r] + 1;
        if (count <= 0) continue;
        REQUIRE(a >= 0 && a < n_actions && place[r] >= 0 && place[r] + count <= cells.columns);
        each_move(p, paid, scale, r / n * n_actions + a, nodes[r % n], next, to_upper, width,
                  [&](i64 to, i64 bins, double off, double chance) {
                      i64 first = next_place[to] + low[r] + bins - next_low[to];
                      fits = fits && low[r] + bins >= next_low[to] && high[r] + bins <= next_high[to];
                      fits = fits && first >= 0 && first + count <= next_cells.columns;
                      if (fits) add_cells(cells, place[r], count, chance, off, next_cells, first);
                  });
    }
    REQUIRE(fits);
    return {};
}

inline const Kernel kernels[] = {
    kernel<reach_bins<i32>, reach_bins<i64>>(
        "reach_bins",
        "indptr indices data paid scale actions nodes step next_nodes next_step to_upper snap width low high next_low "
        "next_high",
        "next_low and next_high: the bins that the rows of a policy with memory lead to."),
    kernel<move_cells<i32>, move_cells<i64>>(
        "move_cells",
        "indptr indices data paid scale actions nodes step next_nodes next_step to_upper snap width low high place "
        "cells next_low next_high next_place next_cells",
        "next_cells (KEPT, n): one step of a policy with memory, and of what it has earned."),
};
inline const Subject listed = subject("earned", "What a policy with memory has earned.", kernels);

}  // namespace cautious::earned
