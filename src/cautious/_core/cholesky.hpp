// Sparse Cholesky factorisation by dense fronts (multifrontal), and solving with the factor.
//
// Legend: see cholesky_analysis.hpp. `values` are the entries of the matrix sorted by supernode: those of supernode k
// are entry_start[k] to entry_start[k + 1] and go to `entry_place` of its panel. `panels` holds L, supernode by
// supernode from panel_start[k] on: column after column, with one over the diagonal entry in place of that, each as
// long as the padded number of rows. The update matrix of a supernode (upper triangle, row by row) waits at
// update_start[k] of `updates`.
//
// Sums are made tile by tile: COLUMNS_AT_ONCE by two vectors of sums stay in registers while columns pass by. Tiles at
// an edge also write numbers that are never read: before the diagonal of a column, before the diagonal of an update
// matrix, and where the next panel will be.
#pragma once
#include "cholesky_analysis.hpp"
#include "vec.hpp"

namespace cautious::cholesky {

using namespace cholesky_analysis;

// As many numbers as a vector has here. Eight vectors of sums must stay in registers, so it is one register long, but
// no longer than 32 bytes: most panels are narrow.
inline constexpr int PANEL_LANES = std::min(REGISTER_BYTES, 32) / static_cast<int>(sizeof(double));
inline constexpr i64 TILE_LANES = 2 * PANEL_LANES;
using V = Vec<PANEL_LANES>;

// Columns that contribute to others at once: their tiles then stay in the cache.
inline constexpr i64 TILE_DEPTH = 64;
static_assert(TILE_DEPTH % PADDING == 0 && PADDING % TILE_LANES == 0);

// A vanishing pivot is replaced by this one: its unknown then stays zero.
inline constexpr double HUGE_PIVOT = 1e30;

// A factor is read once in either direction, and little is done with each number: those that come this many later are
// asked for while these are in use.
inline constexpr i64 NUMBERS_AHEAD = 1024, NUMBERS_PER_CACHE_LINE = 8;

// The columns of one supernode.
template <class T>
struct Panel {
    T* data;
    i64 columns, size, width;

    T* column(i64 j) const { return data + j * width; }
};

// out[i stride + j] -= sum over `count` columns of column[at + i] column[low + j], for one tile. What was there before
// does not matter if it is `blank`.
inline void subtract_tile(double* __restrict out, i64 stride, const double* __restrict column, i64 width, i64 count,
                          i64 at, i64 low, bool blank) {
    constexpr int N = PANEL_LANES;
    double *out_1 = out + stride, *out_2 = out_1 + stride, *out_3 = out_2 + stride;
    // minus the sums: compilers would otherwise negate a factor of every product
    V a, b, c, d, e, f, g, h, zero = V::all(0);
    a = b = c = d = e = f = g = h = zero;
    if (!blank) {
        a = zero - V::load(out), b = zero - V::load(out + N);
        c = zero - V::load(out_1), d = zero - V::load(out_1 + N);
        e = zero - V::load(out_2), f = zero - V::load(out_2 + N);
        g = zero - V::load(out_3), h = zero - V::load(out_3 + N);
    }
    const double *weights = column + at, *numbers = column + low;
    for (i64 k = 0; k < count; ++k, weights += width, numbers += width) {
        V p = V::load(numbers), q = V::load(numbers + N);
        V weight = V::all(weights[0]);
        a = multiply_add(weight, p, a), b = multiply_add(weight, q, b);
        weight = V::all(weights[1]);
        c = multiply_add(weight, p, c), d = multiply_add(weight, q, d);
        weight = V::all(weights[2]);
        e = multiply_add(weight, p, e), f = multiply_add(weight, q, f);
        weight = V::all(weights[3]);
        g = multiply_add(weight, p, g), h = multiply_add(weight, q, h);
    }
    (zero - a).store(out), (zero - b).store(out + N);
    (zero - c).store(out_1), (zero - d).store(out_1 + N);
    (zero - e).store(out_2), (zero - f).store(out_2 + N);
    (zero - g).store(out_3), (zero - h).store(out_3 + N);
}

inline double pivot_of(double value, double least) { return value > least ? value : HUGE_PIVOT; }

// Columns j to j + 3 of a panel, from their diagonal on. Pivots not above `least` (4,) count as zero. One over the
// diagonal is kept in its place: solving multiplies by it. Returns how many pivots vanished of those in the panel.
inline i64 eliminate_four(Panel<double> panel, i64 j, const double* least) {
    constexpr int N = PANEL_LANES;
    double *p = panel.column(j) + j, *q = p + panel.width, *r = q + panel.width, *s = r + panel.width;
    double a = pivot_of(p[0], least[0]), by_a = 1 / std::sqrt(a);
    double ab = p[1] * by_a, ac = p[2] * by_a, ad = p[3] * by_a;
    double b = pivot_of(q[1] - ab * ab, least[1]), by_b = 1 / std::sqrt(b);
    double bc = (q[2] - ab * ac) * by_b, bd = (q[3] - ab * ad) * by_b;
    double c = pivot_of(r[2] - ac * ac - bc * bc, least[2]), by_c = 1 / std::sqrt(c);
    double cd = (r[3] - ac * ad - bc * bd) * by_c;
    double d = pivot_of(s[3] - ad * ad - bd * bd - cd * cd, least[3]), by_d = 1 / std::sqrt(d);
    const V v_a = V::all(by_a), v_b = V::all(by_b), v_c = V::all(by_c), v_d = V::all(by_d), v_ab = V::all(ab);
    const V v_ac = V::all(ac), v_ad = V::all(ad), v_bc = V::all(bc), v_bd = V::all(bd), v_cd = V::all(cd);
    for (i64 i = 0; i < panel.width - j; i += N) {
        V one = V::load(p + i) * v_a;
        V two = subtract_product(V::load(q + i), v_ab, one) * v_b;
        V three = subtract_product(subtract_product(V::load(r + i), v_ac, one), v_bc, two) * v_c;
        V four = subtract_product(subtract_product(V::load(s + i), v_ad, one), v_bd, two);
        four = subtract_product(four, v_cd, three) * v_d;
        one.store(p + i), two.store(q + i), three.store(r + i), four.store(s + i);
    }
    p[0] = by_a, q[1] = by_b, r[2] = by_c, s[3] = by_d;
    i64 valid = panel.columns - j;
    return (a == HUGE_PIVOT) + (valid > 1 && b == HUGE_PIVOT) + (valid > 2 && c == HUGE_PIVOT) +
           (valid > 3 && d == HUGE_PIVOT);
}

// Eliminate the columns of a panel; returns how many pivots vanished. What comes after the last column may be anything.
inline i64 factor_panel(Panel<double> panel, const double* least) {
    i64 width = panel.width, vanished = 0;
    for (i64 start = 0; start < panel.columns; start += TILE_DEPTH) {
        i64 stop = std::min(start + TILE_DEPTH, panel.columns);
        const double* first = panel.column(start);
        for (i64 j = start; j < stop; j += COLUMNS_AT_ONCE) {
            for (i64 low = j - j % TILE_LANES; j > start && low < panel.size; low += TILE_LANES)
                subtract_tile(panel.column(j) + low, width, first, width, j - start, j, low, false);
            vanished += eliminate_four(panel, j, least + j);
        }
        for (i64 low = stop; low < panel.size; low += TILE_LANES)
            for (i64 j = stop; j < std::min(low + TILE_LANES, panel.columns); j += COLUMNS_AT_ONCE)
                subtract_tile(panel.column(j) + low, width, first, width, TILE_DEPTH, j, low, false);
    }
    return vanished;
}

// The update matrix that the columns of a panel leave, without those of its children.
inline void make_update(Panel<double> panel, double* update) {
    i64 columns = panel.columns, left = panel.size - columns, stride = padded(left);
    for (i64 start = 0; start < columns; start += TILE_DEPTH) {
        i64 count = std::min(TILE_DEPTH, columns - start);
        for (i64 low = 0; low < left; low += TILE_LANES)
            for (i64 i = 0; i < std::min(low + TILE_LANES, left); i += COLUMNS_AT_ONCE)
                subtract_tile(update + i * stride + low, stride, panel.column(start), panel.width, count, columns + i,
                              columns + low, start == 0);
    }
}

// Add rows begin to end of a child's update matrix, where `positions` says; column 0 of row p begins at `to` + p width.
inline void add_rows(double* __restrict to, i64 width, const double* __restrict update, In<i64> positions, i64 begin,
                     i64 end) {
    i64 stride = padded(positions.size), n = positions.size;
    const i64* __restrict at = positions.data;
    for (i64 j = begin; j < end; ++j) {
        double* row = to + at[j] * width;
        const double* from = update + j * stride;
        for (i64 i = j; i < n; ++i) row[at[i]] += from[i];
    }
}

// Ask for the numbers of four columns from `place` on, as many as one vector of each.
inline void fetch_four(const double* place) {
    for (i64 i = 0; i < 4 * PANEL_LANES; i += NUMBERS_PER_CACHE_LINE) fetch(place + i);
}

// x <- L^-1 x for the own columns; what they contribute to the rows below is subtracted there.
inline void solve_lower(Panel<const double> panel, double* __restrict x) {
    constexpr int N = PANEL_LANES;
    i64 width = panel.width, whole = panel.columns - panel.columns % 4;
    for (i64 j = 0; j < whole; j += 4) {
        const double *p = panel.column(j), *q = p + width, *r = q + width, *s = r + width;
        double a = x[j] * p[j];
        double b = (x[j + 1] - p[j + 1] * a) * q[j + 1];
        double c = (x[j + 2] - p[j + 2] * a - q[j + 2] * b) * r[j + 2];
        double d = (x[j + 3] - p[j + 3] * a - q[j + 3] * b - r[j + 3] * c) * s[j + 3];
        x[j] = a, x[j + 1] = b, x[j + 2] = c, x[j + 3] = d;
        const V all_a = V::all(a), all_b = V::all(b), all_c = V::all(c), all_d = V::all(d);
        for (i64 i = j + 4; i < width; i += N) {
            fetch_four(p + 4 * i + NUMBERS_AHEAD);
            V left = subtract_product(subtract_product(V::load(x + i), V::load(p + i), all_a), V::load(q + i), all_b);
            subtract_product(subtract_product(left, V::load(r + i), all_c), V::load(s + i), all_d).store(x + i);
        }
    }
    for (i64 j = whole; j < panel.columns; ++j) {
        const double* p = panel.column(j);
        double a = x[j] *= p[j];
        i64 i = j + 1;
        for (; i < whole + 4; ++i) x[i] -= p[i] * a;
        for (; i < width; i += N) subtract_product(V::load(x + i), V::load(p + i), V::all(a)).store(x + i);
    }
}

// x <- L'^-1 x for the own columns, the rows below being known.
inline void solve_upper(Panel<const double> panel, double* __restrict x) {
    constexpr int N = PANEL_LANES;
    i64 width = panel.width, whole = panel.columns - panel.columns % 4;
    for (i64 j = panel.columns - 1; j >= whole; --j) {
        const double* p = panel.column(j);
        double a = x[j];
        i64 i = j + 1;
        for (; i < whole + 4; ++i) a -= p[i] * x[i];
        V sums = V::all(0);
        for (; i < width; i += N) sums = multiply_add(V::load(p + i), V::load(x + i), sums);
        x[j] = (a - sums.sum()) * p[j];
    }
    for (i64 j = whole - 4; j >= 0; j -= 4) {
        const double *p = panel.column(j), *q = p + width, *r = q + width, *s = r + width;
        V one = V::all(0), two = one, three = one, four = one;
        for (i64 i = j + 4; i < width; i += N) {
            fetch_four(p + 4 * i - NUMBERS_AHEAD);
            V known = V::load(x + i);
            one = multiply_add(V::load(p + i), known, one), two = multiply_add(V::load(q + i), known, two);
            three = multiply_add(V::load(r + i), known, three), four = multiply_add(V::load(s + i), known, four);
        }
        double a = one.sum(), b = two.sum(), c = three.sum(), d = four.sum();
        d = (x[j + 3] - d) * s[j + 3];
        c = (x[j + 2] - c - r[j + 3] * d) * r[j + 2];
        b = (x[j + 1] - b - q[j + 3] * d - q[j + 2] * c) * q[j + 1];
        a = (x[j] - a - p[j + 3] * d - p[j + 2] * c - p[j + 1] * b) * p[j];
        x[j] = a, x[j + 1] = b, x[j + 2] = c, x[j + 3] = d;
    }
}

// Where the parts of a factor are.
struct Supernodes {
    In<i64> first, row_start, rows, panel_start;

    i64 count() const { return first.size - 1; }
    i64 unknowns() const { return first[count()]; }
    i64 size(i64 k) const { return row_start[k + 1] - row_start[k]; }
    i64 columns(i64 k) const { return first[k + 1] - first[k]; }
    template <class T>
    Panel<T> panel(Span<T> panels, i64 k) const {
        return {panels.data + panel_start[k], columns(k), size(k), padded(size(k))};
    }
    // The padded length of the longest column.
    i64 widest() const {
        i64 found = 0;
        for (i64 k = 0; k < count(); ++k) found = std::max(found, padded(size(k)));
        return found;
    }
    // Whether panels are one after another as their sizes say, with room behind the last.
    bool fit(i64 room) const {
        if (!are_rows(first, row_start, rows) || panel_start.size != first.size || panel_start[0] != 0) return false;
        for (i64 k = 0; k < count(); ++k)
            if (panel_start[k + 1] - panel_start[k] != columns(k) * padded(size(k))) return false;
        return panel_start[count()] + COLUMNS_AT_ONCE * widest() + PADDING <= room;
    }
};

// The part of x <- L^-1 x that supernode k does; `own` has room for its rows.
inline void solve_lower_part(const Supernodes& nodes, i64 k, In<double> panels, Out<double> own, Out<double> x) {
    Panel<const double> panel = nodes.panel(panels, k);
    i64 begin = nodes.first[k];
    double* here = own.data;
    for (i64 j = 0; j < panel.columns; ++j) here[j] = x[begin + j];
    own.part(panel.columns, panel.width).fill(0);
    solve_lower(panel, here);
    for (i64 j = 0; j < panel.columns; ++j) x[begin + j] = here[j];
    const i64* rows = nodes.rows.data + nodes.row_start[k];
    for (i64 i = panel.columns; i < panel.size; ++i) x[rows[i]] += here[i];
}

// x <- L'^-1 x.
inline void solve_upper_all(const Supernodes& nodes, In<double> panels, Out<double> own, Out<double> x) {
    for (i64 k = nodes.count() - 1; k >= 0; --k) {
        Panel<const double> panel = nodes.panel(panels, k);
        const i64* rows = nodes.rows.data + nodes.row_start[k];
        for (i64 i = 0; i < panel.size; ++i) own[i] = x[rows[i]];
        // numbers beyond the rows may be anything but must not spoil sums
        own.part(panel.size, panel.width).fill(0);
        solve_upper(panel, own.data);
        for (i64 j = 0; j < panel.columns; ++j) x[nodes.first[k] + j] = own[j];
    }
}

// The tree of supernodes while a matrix is factored.
struct Fronts {
    Supernodes nodes;
    In<i64> tree, positions, update_start;
    Out<double> panels, updates;

    // Rows of a supernode below its own columns, as positions among those of its parent.
    In<i64> below(i64 k) const {
        return positions.part(nodes.row_start[k] + nodes.columns(k), nodes.row_start[k + 1]);
    }
    bool fit() const {
        if (!nodes.fit(panels.size) || tree.size != nodes.count() || !is_forest(tree)) return false;
        if (positions.size != nodes.rows.size || update_start.size != tree.size) return false;
        for (i64 k = 0; k < tree.size; ++k) {
            i64 stride = padded(nodes.size(k) - nodes.columns(k));
            if (update_start[k] < 0 || update_start[k] > updates.size - stride * stride) return false;
        }
        return true;
    }
    void add_to_panel(i64 child, Panel<double> panel) const {
        In<i64> at = below(child);
        i64 own = std::lower_bound(at.begin(), at.end(), panel.columns) - at.begin();
        add_rows(panel.data, panel.width, updates.data + update_start[child], at, 0, own);
    }
    void add_to_update(i64 child, i64 k) const {
        In<i64> at = below(child);
        i64 columns = nodes.columns(k), stride = padded(nodes.size(k) - columns);
        i64 own = std::lower_bound(at.begin(), at.end(), columns) - at.begin();
        double* corner = updates.data + update_start[k] - columns * stride - columns;
        add_rows(corner, stride, updates.data + update_start[child], at, own, at.size);
    }
};

// L into `panels`, and the solution of the first system. Pivots not above this share of their diagonal entries count as
// zero; returns how many did. Diagonal entries of zero become one. L^-1 is applied to the right side on the way: a
// panel is in the cache when it has just been made.
inline i64 factor_and_solve(Out<double> values, In<i64> diagonal, double share, In<i64> entry_start,
                            In<i64> entry_place, In<i64> first, In<i64> row_start, In<i64> rows, In<i64> panel_start,
                            In<i64> tree, In<i64> positions, In<i64> update_start, In<i64> order, Out<double> panels,
                            Out<double> updates, In<double> right, Out<double> solution) {
    Fronts fronts{{first, row_start, rows, panel_start}, tree, positions, update_start, panels, updates};
    const Supernodes& nodes = fronts.nodes;
    REQUIRE(fronts.fit() && nodes.unknowns() == order.size && diagonal.size == order.size);
    REQUIRE(right.size == order.size && solution.size == order.size && entry_start.size == first.size);
    REQUIRE(entry_start[0] == 0 && entry_start[tree.size] == values.size && entry_place.size == values.size);
    Buffer<double> x(order.size), least(order.size + COLUMNS_AT_ONCE, 0.0);
    Buffer<double> own(nodes.widest());
    Buffer<i64> children(tree.size, 0), waiting(tree.size);
    REQUIRE_MEMORY(x, least, own, children, waiting);
    for (i64 i = 0; i < order.size; ++i) {
        double& entry = values[diagonal[i]];
        if (entry == 0.0) entry = 1.0;
        least[i] = share * entry;
        x[i] = right[order[i]];
    }
    for (i64 p : tree)
        if (p >= 0) ++children[p];
    i64 held = 0, vanished = 0;
    for (i64 k = 0; k < tree.size; ++k) {
        Panel<double> panel = nodes.panel(panels, k);
        std::fill_n(panel.data, panel.columns * panel.width, 0.0);
        for (i64 e = entry_start[k]; e < entry_start[k + 1]; ++e) panel.data[entry_place[e]] += values[e];
        // in the order of the tree a supernode's children are the last that wait
        i64 before = held - children[k];
        for (i64 c = before; c < held; ++c) fronts.add_to_panel(waiting[c], panel);
        vanished += factor_panel(panel, least.data + first[k]);
        solve_lower_part(nodes, k, panels, own, x);
        if (tree[k] >= 0) {
            make_update(panel, updates.data + update_start[k]);
            for (i64 c = before; c < held; ++c) fronts.add_to_update(waiting[c], k);
            waiting[before++] = k;
        }
        held = before;
    }
    solve_upper_all(nodes, panels, own, x);
    for (i64 i = 0; i < order.size; ++i) solution[order[i]] = x[i];
    return vanished;
}

// The solution of another system with the last matrix.
inline Done solve_again(In<i64> first, In<i64> row_start, In<i64> rows, In<i64> panel_start, In<i64> order,
                        In<double> panels, In<double> right, Out<double> solution) {
    Supernodes nodes{first, row_start, rows, panel_start};
    REQUIRE(nodes.fit(panels.size) && nodes.unknowns() == order.size);
    REQUIRE(right.size == order.size && solution.size == order.size);
    Buffer<double> x(order.size);
    Buffer<double> own(nodes.widest());
    REQUIRE_MEMORY(x, own);
    for (i64 i = 0; i < order.size; ++i) x[i] = right[order[i]];
    for (i64 k = 0; k < nodes.count(); ++k) solve_lower_part(nodes, k, panels, own, x);
    solve_upper_all(nodes, panels, own, x);
    for (i64 i = 0; i < order.size; ++i) solution[order[i]] = x[i];
    return {};
}

inline const Kernel kernels[] = {
    kernel<factor_and_solve>(
        "factor_and_solve",
        "values diagonal share entry_start entry_place first row_start rows panel_start tree positions update_start "
        "order panels updates right solution",
        "L into ``panels``, and the solution of the first system; how many pivots vanished."),
    kernel<solve_again>("solve_again", "first row_start rows panel_start order panels right solution",
                        "The solution of another system with the last matrix."),
};

inline const Subject listed =
    subject("cholesky", "Sparse Cholesky factorisation by dense fronts, and solving with the factor.", kernels);

}  // namespace cautious::cholesky
