// The Markov chain of one policy and its linear systems: values (I - gamma P) x = b and occupancy (I - gamma P') x = b.
//
// Legend: row s*A + a of the sparse rows of a model is P(. | s, a), with indices of type I; `r` (S*A,) a reward table,
// minus infinity on pairs that may not be used; `pi` (S*A,) a policy. (pointer, successor, chance) are the rows of its
// chain P (S, S), with indices of type J, short where they fit. `inverse` (S,) is one over the diagonal of I - gamma P.
//
// Both systems read the chain by rows: one gathers, the other scatters, so no transposed copy is needed. Loops over
// whole vectors wait for memory in large models, so as much as possible is done in one loop.
#pragma once
#include "flow.hpp"
#include "vec.hpp"

namespace cautious::chains {

using namespace flow;

// vectors (S,) that `bicgstab` works in
inline constexpr i64 WORK_VECTORS = 7;
// states of a block that is solved densely
inline constexpr i64 MAX_BLOCK = 100;
// below this share of its last value the product with the shadow residual says nothing any more
inline constexpr double MIN_PRODUCT_RATIO = 1e-12;

// What a pair is paid; nothing if it may not be used, for states that have no other.
inline double reward_or_zero(double r) { return r > -INFINITE ? r : 0.0; }

// One row of a model into the chain, from place n on.
template <class I, class J>
void copy_row(const Rows<I>& p, i64 row, J* successor, double* chance, i64 n) {
    const I* from = p.indices.data + p.first(row);
    const double* data = p.data.data + p.first(row);
    successor += n;
    chance += n;
    i64 i = 0, length = p.length(row);
    // four at a time, without a branch for each that is hard to predict
    if constexpr (std::is_same_v<I, J>) {
        for (; i + 4 <= length; i += 4) {
            std::memcpy(successor + i, from + i, 4 * sizeof(J));
            std::memcpy(chance + i, data + i, 4 * sizeof(double));
        }
    }
    for (; i < length; ++i) {
        successor[i] = static_cast<J>(from[i]);
        chance[i] = data[i];
    }
}

// The chain of a deterministic policy and its reward b (S,): one row of the transitions per state.
template <class I, class J>
Done choose_rows(Rows<I> p, In<double> r, In<i64> action, Out<J> pointer, Out<J> successor, Out<double> chance,
                 Out<double> b) {
    i64 n_actions = evenly(r.size, action.size), n = 0;
    REQUIRE(n_actions > 0 && r.size == p.count() && b.size == action.size && pointer.size == action.size + 1);
    REQUIRE(successor.size == chance.size && successor.size <= std::numeric_limits<J>::max());
    for (i64 s = 0; s < action.size; ++s) {
        REQUIRE(action[s] >= 0 && action[s] < n_actions);
        i64 row = s * n_actions + action[s], length = p.length(row);
        REQUIRE(length <= successor.size - n);
        pointer[s] = static_cast<J>(n);
        copy_row(p, row, successor.data, chance.data, n);
        b[s] = reward_or_zero(r[row]);
        n += length;
    }
    pointer[action.size] = static_cast<J>(n);
    return {};
}

// Bring the chain of the `held` actions (S,) to those of `action`; false if a row has not the same length. Everything
// must be as choose_rows left it. After false the chain is of no use.
template <class I, class J>
bool change_rows(Rows<I> p, In<double> r, In<i64> action, Out<i64> held, In<J> pointer, Out<J> successor,
                 Out<double> chance, Out<double> b) {
    i64 n_actions = evenly(r.size, action.size);
    REQUIRE(n_actions > 0 && r.size == p.count() && b.size == action.size && pointer.size == action.size + 1);
    REQUIRE(held.size == action.size && successor.size == chance.size);
    REQUIRE(pointer[0] == 0 && pointer[action.size] <= successor.size);
    for (i64 s = 0; s < action.size; ++s) {
        if (action[s] == held[s]) continue;
        REQUIRE(action[s] >= 0 && action[s] < n_actions);
        i64 row = s * n_actions + action[s], n = pointer[s];
        if (p.length(row) != pointer[s + 1] - n) return false;
        copy_row(p, row, successor.data, chance.data, n);
        b[s] = reward_or_zero(r[row]);
        held[s] = action[s];
    }
    return true;
}

// The chain of any policy in the states of a block: rows of the same state mixed, entries of the same successor added.
// pointer[base] says where they begin; `place` (S,) is overwritten.
template <class I, class J>
Done mix_rows(Block<I> block, In<double> pi, Out<J> pointer, Out<J> successor, Out<double> chance, Out<J> place) {
    i64 n_states = pointer.size - 1, n_actions = evenly(pi.size, n_states), row = 0;
    REQUIRE(block.fits(n_states, n_actions) && place.size == n_states);
    REQUIRE(successor.size == chance.size && successor.size <= std::numeric_limits<J>::max());
    const Rows<I>& p = block.rows;
    i64 n = pointer[block.base];
    REQUIRE(n >= 0 && n <= successor.size);
    for (i64 s = block.base; s < block.end(n_actions); ++s) {
        i64 start = n;
        pointer[s] = static_cast<J>(n);
        for (i64 a = 0; a < n_actions; ++a, ++row) {
            double weight = pi[s * n_actions + a];
            if (!(weight > 0.0)) continue;
            REQUIRE(p.length(row) <= successor.size - n);
            for (i64 k = p.first(row); k < p.last(row); ++k) {
                // a place counts only if it lies in this row and was made for this successor
                i64 j = p.indices[k], at = place[j];
                if (start <= at && at < n && successor[at] == j) {
                    chance[at] += weight * p.data[k];
                } else {
                    place[j] = static_cast<J>(n);
                    successor[n] = static_cast<J>(j);
                    chance[n++] = weight * p.data[k];
                }
            }
        }
    }
    pointer[block.end(n_actions)] = static_cast<J>(n);
    return {};
}

// out = b + gamma P' x - x, (S,); its 1-norm.
template <class J>
double missing_flow(Rows<J> p, double gamma, In<double> b, In<double> x, Out<double> out) {
    REQUIRE(x.size == p.count() && b.size == x.size && out.size == x.size);
    by_lanes(0, x.size, [=]<class V>(V, i64 s) {
        (V::load(b.data + s) - V::load(x.data + s)).store(out.data + s);
    });
    for (i64 s = 0; s < x.size; ++s) {
        double carried = gamma * x[s];
        if (carried != 0.0) add_row(p, carried, s, out);
    }
    double size = 0.0;
    for (double left : out) size += std::abs(left);
    return size;
}

// x = a^-1 x by elimination without exchanges, for a dense a (m, m), of which nothing is left: I - P needs none.
inline void eliminate(double* a, i64 m, double* x) {
    for (i64 i = 0; i < m; ++i) {
        for (i64 r = i + 1; r < m; ++r) {
            double factor = a[r * m + i] / a[i * m + i];
            if (factor == 0.0) continue;
            for (i64 c = i + 1; c < m; ++c) a[r * m + c] -= factor * a[i * m + c];
            x[r] -= factor * x[i];
        }
    }
    for (i64 i = m - 1; i >= 0; --i) {
        for (i64 c = i + 1; c < m; ++c) x[i] -= a[i * m + c] * x[c];
        x[i] /= a[i * m + i];
    }
}

// The step of `substitute` for a block of one state; false if the state leads to an earlier block.
template <class J>
bool solve_alone(const Rows<J>& p, i64 s, In<i64> block, bool transposed, Out<double> x) {
    i64 first = p.first(s), last = p.last(s);
    double total = x[s], leaving = 1.0;
    for (i64 k = first; k < last; ++k) {
        i64 j = p.indices[k];
        if (p.data[k] == 0.0) continue;
        if (j == s)
            leaving -= p.data[k];
        else if (block[j] <= block[s])
            return false;
        else if (!transposed)
            total += p.data[k] * x[j];
    }
    x[s] = total = total / leaving;
    for (i64 k = first; transposed && k < last; ++k)
        if (p.indices[k] != s) x[p.indices[k]] += p.data[k] * total;
    return true;
}

// x = (I - P)^-1 b, or with P'. In the `order` of the states no state leads to an earlier `block`; blocks of at most
// `largest` states are solved densely one after the other.
template <class J>
Done substitute(Rows<J> p, In<i64> order, In<i64> block, i64 largest, bool transposed, In<double> b, Out<double> x) {
    i64 n = x.size, m = 0;
    REQUIRE(p.count() == n && order.size == n && block.size == n && b.size == n);
    REQUIRE(largest > 0 && largest <= MAX_BLOCK);
    Buffer<i64> place(n, 0), states(largest);
    Buffer<double> dense(largest * largest), own(largest);
    REQUIRE_MEMORY(place, states, dense, own);
    std::copy(b.begin(), b.end(), x.begin());
    for (i64 done = 0; done < n; done += m) {
        i64 only = transposed ? done : n - 1 - done, next = transposed ? only + 1 : only - 1;
        REQUIRE(order[only] >= 0 && order[only] < n);
        m = 1;
        if (done + 1 == n || (order[next] >= 0 && order[next] < n && block[order[next]] != block[order[only]])) {
            REQUIRE(solve_alone(p, order[only], block, transposed, x));
            continue;
        }
        for (m = 0; done + m < n; ++m) {
            i64 s = order[transposed ? done + m : n - 1 - done - m];
            REQUIRE(s >= 0 && s < n);
            if (m > 0 && block[s] != block[states[0]]) break;
            REQUIRE(m < largest);
            states[m] = s;
            place[s] = m;
            own[m] = x[s];
        }
        std::fill(dense.data, dense.data + m * m, 0.0);
        for (i64 row = 0; row < m; ++row) {
            i64 s = states[row];
            dense[row * m + row] += 1.0;
            for (i64 k = p.first(s); k < p.last(s); ++k) {
                i64 j = p.indices[k];
                if (p.data[k] == 0.0) continue;
                REQUIRE(block[j] >= block[s]);
                if (block[j] == block[s]) {
                    i64 column = place[j];
                    dense[transposed ? column * m + row : row * m + column] -= p.data[k];
                } else if (!transposed) {
                    own[row] += p.data[k] * x[j];
                }
            }
        }
        eliminate(dense.data, m, own.data);
        for (i64 row = 0; row < m; ++row) {
            i64 s = states[row];
            x[s] = own[row];
            for (i64 k = p.first(s); transposed && k < p.last(s); ++k) {
                if (block[p.indices[k]] > block[s]) x[p.indices[k]] += p.data[k] * own[row];
            }
        }
    }
    return {};
}

// weight = gamma P(s, j) / (1 - gamma P(s, s)) for each stored entry, 0 where j = s; and `inverse`.
template <class J>
Done scaled_rows(Rows<J> p, double gamma, Out<double> weight, Out<double> inverse) {
    REQUIRE(weight.size == p.data.size && inverse.size == p.count());
    for (i64 s = 0; s < inverse.size; ++s) {
        double diagonal = 1.0;
        bool stays = false;
        i64 first = p.first(s), last = p.last(s);
        for (i64 k = first; k < last; ++k) {
            if (p.indices[k] != s) [[likely]]
                continue;
            diagonal -= gamma * p.data[k];
            stays = true;
        }
        double scale = inverse[s] = 1.0 / diagonal;
        const double* data = p.data.data + first;
        double* own = weight.data + first;
        by_lanes<4>(0, last - first, [=]<class V>(V, i64 i) {
            (V::all(gamma) * V::load(data + i) * V::all(scale)).store(own + i);
        });
        for (i64 k = first; stays && k < last; ++k)
            if (p.indices[k] == s) weight[k] = 0.0;
    }
    return {};
}

// Sums, or largest sizes, over the lanes of such loops.
struct Running {
    Vec<LANES> many = Vec<LANES>::all(0.0);
    Vec<1> last = Vec<1>::all(0.0);

    template <class V>
    V& own(V) {
        if constexpr (std::is_same_v<V, Vec<1>>)
            return last;
        else
            return many;
    }
    template <class V>
    void add_product(V x, V y) {
        own(x) = multiply_add(x, y, own(x));
    }
    template <class V>
    void add_size(V x) {
        own(x) = own(x) + absolute(x);
    }
    template <class V>
    void raise_to_size(V x) {
        own(x) = larger(own(x), absolute(x));
    }
    double sum() const { return many.sum() + last[0]; }
    double largest() const { return std::max(many.largest(), last[0]); }
};

// The chain as its two systems see it: off-diagonal entries scaled as the rows are, see scaled_rows.
template <class J>
struct System {
    const J *pointer, *successor;
    const double *weight, *inverse;
    i64 n_states;

    double neighbours(const double* z, i64 s) const {
        double total = 0.0;
#pragma GCC unroll 4
        for (i64 k = pointer[s], last = pointer[s + 1]; k < last; ++k) total += weight[k] * z[successor[k]];
        return total;
    }

    // z = one symmetric Gauss-Seidel sweep on (I - gamma P) z = y from zero; left = y - (I - gamma P) z.
    void gather(const double* y, double* z, double* left) const {
        System m = *this;
        i64 n = n_states;
        for (i64 s = 0; s < n; ++s) z[s] = 0.0;
        by_lanes(0, n, [=]<class V>(V, i64 s) {
            (V::load(m.inverse + s) * V::load(y + s)).store(left + s);
        });
        for (i64 s = 0; s < n; ++s) z[s] = left[s] + m.neighbours(z, s);
        for (i64 s = n - 1; s >= 0; --s) z[s] = left[s] + m.neighbours(z, s);
        for (i64 s = 0; s < n; ++s) left[s] = y[s] - (z[s] - m.neighbours(z, s)) / m.inverse[s];
    }

    // The same for (I - gamma P') z = y; what the sweep leaves of y is its residual, which costs nothing more.
    void scatter(const double* y, double* z, double* left) const {
        System m = *this;
        i64 n = n_states;
        std::memcpy(left, y, static_cast<std::size_t>(n) * sizeof(double));
        // take what is left at a state into z, and hand on what follows
        auto pass_on = [=](i64 s, bool again) {
            double taken = left[s];
            left[s] = 0.0;
            z[s] = again ? z[s] + m.inverse[s] * taken : m.inverse[s] * taken;
#pragma GCC unroll 4
            for (i64 k = m.pointer[s], last = m.pointer[s + 1]; k < last; ++k)
                left[m.successor[k]] += taken * m.weight[k];
        };
        for (i64 s = 0; s < n; ++s) pass_on(s, false);
        for (i64 s = n - 1; s >= 0; --s) pass_on(s, true);
    }

    // z: y after the preconditioner; az: z after the matrix; the products of az with `other` (S,) and with itself.
    std::tuple<double, double> apply(bool transposed, const double* y, const double* other, double* z,
                                     double* az) const {
        if (transposed)
            scatter(y, z, az);
        else
            gather(y, z, az);
        Running along, square;
        by_lanes(0, n_states, [&]<class V>(V, i64 i) {
            V product = V::load(y + i) - V::load(az + i);
            product.store(az + i);
            along.add_product(V::load(other + i), product);
            square.add_product(product, product);
        });
        return {along.sum(), square.sum()};
    }
};

// The vectors of BiCGStab, each (S,): the solution x, the residual r, and the shadow residual.
struct KrylovVectors {
    i64 size;
    double *x, *r, *p, *p_hat, *r_hat, *v, *t, *shadow;

    // Begin with what is left: shadow = p = r; returns <r, r>.
    double restart() const {
        std::copy(r, r + size, p);
        std::copy(r, r + size, shadow);
        return dot(In<double>{r, size}, In<double>{r, size});
    }

    // r -= alpha v
    void half_step(double alpha) const {
        by_lanes(0, size, [this, alpha]<class V>(V, i64 i) {
            (V::load(r + i) - V::all(alpha) * V::load(v + i)).store(r + i);
        });
    }

    // The rest of a step: <shadow, r> afterwards, and the 1-norm of r if `summed`, else its largest entry.
    std::tuple<double, double> move(double alpha, double omega, bool summed) const {
        Running rho, size_of_r;
        by_lanes(0, size, [&]<class V>(V, i64 i) {
            V first = V::all(alpha) * V::load(p_hat + i);
            V second = V::all(omega) * V::load(r_hat + i);
            (V::load(x + i) + (first + second)).store(x + i);
            V left = V::load(r + i) - V::all(omega) * V::load(t + i);
            left.store(r + i);
            rho.add_product(V::load(shadow + i), left);
            if (summed)
                size_of_r.add_size(left);
            else
                size_of_r.raise_to_size(left);
        });
        return {rho.sum(), summed ? size_of_r.sum() : size_of_r.largest()};
    }

    // p = r + beta (p - omega v)
    void turn(double beta, double omega) const {
        by_lanes(0, size, [this, beta, omega]<class V>(V, i64 i) {
            V kept = V::load(p + i) - V::all(omega) * V::load(v + i);
            (V::load(r + i) + V::all(beta) * kept).store(p + i);
        });
    }
};

// x (S,) with (I - gamma P) x = b, or with P' if `transposed`, from zero; returns how many steps it took.
//
// BiCGStab, preconditioned by a symmetric Gauss-Seidel sweep; `weight` and `inverse` come from scaled_rows. It stops
// when its own idea of the residual is at most `tolerance` in the 1-norm (transposed) or the largest entry, or after
// `most` steps: the caller measures. Where the residual becomes orthogonal to the shadow residual, as for a start state
// that is never entered again, it begins anew with the present residual. `work` (WORK_VECTORS, S) is overwritten.
template <class J>
i64 bicgstab(Rows<J> rows, In<double> inverse, bool transposed, In<double> b, double tolerance, i64 most, Out<double> x,
             Matrix<double> work) {
    i64 n = rows.count();
    REQUIRE(inverse.size == n && b.size == n && x.size == n && most >= 0);
    REQUIRE(work.rows == WORK_VECTORS && work.columns == n);
    System<J> system{rows.indptr.data, rows.indices.data, rows.data.data, inverse.data, n};
    auto vector = [&](i64 i) { return work.data + i * n; };
    KrylovVectors u{n, x.data, vector(0), vector(1), vector(2), vector(3), vector(4), vector(5), vector(6)};
    x.fill(0.0);
    std::copy(b.begin(), b.end(), u.r);
    double rho = u.restart();
    for (i64 step = 0; step < most; ++step) {
        double pv = std::get<0>(system.apply(transposed, u.p, u.shadow, u.p_hat, u.v));
        if (pv == 0.0) return step;
        double alpha = rho / pv;
        u.half_step(alpha);
        auto [along, square] = system.apply(transposed, u.r, u.r, u.r_hat, u.t);
        double omega = square > 0.0 ? along / square : 0.0;
        auto [new_rho, size] = u.move(alpha, omega, transposed);
        // numbers that are not finite do not become so again
        if (!(size > tolerance) || omega == 0.0 || !std::isfinite(new_rho)) return step + 1;
        if (std::abs(new_rho) <= MIN_PRODUCT_RATIO * std::abs(rho)) {
            rho = u.restart();
            continue;
        }
        double beta = (new_rho / rho) * (alpha / omega);
        rho = new_rho;
        u.turn(beta, omega);
    }
    return most;
}

inline const Kernel kernels[] = {
    kernel<choose_rows<i32, i32>, choose_rows<i64, i32>, choose_rows<i64, i64>>(
        "choose_rows", "indptr indices data r action pointer successor chance b",
        "The chain of a deterministic policy and its reward b (S,)."),
    kernel<change_rows<i32, i32>, change_rows<i64, i32>, change_rows<i64, i64>>(
        "change_rows", "indptr indices data r action held pointer successor chance b",
        "Bring the chain of the held actions to those of `action`; False if a row has not the same length."),
    kernel<mix_rows<i32, i32>, mix_rows<i32, i64>, mix_rows<i64, i32>, mix_rows<i64, i64>>(
        
        "mix_rows", "base indptr indices data pi pointer successor chance place",
        "The chain of any policy (S*A,) in the states of a block."),
    kernel<missing_flow<i32>, missing_flow<i64>>("missing_flow", "pointer successor chance gamma b x out",
                                                 "out = b + gamma P' x - x; its 1-norm."),
    kernel<substitute<i32>, substitute<i64>>(
        "substitute", "pointer successor chance order block largest transposed b x",
        "x = (I - P)^-1 b, or with P', for a chain without cycles but in blocks of at most `largest` states."),
    kernel<scaled_rows<i32>, scaled_rows<i64>>(
        "scaled_rows", "pointer successor chance gamma weight inverse",
        "The entries of the chain beside its diagonal, scaled for bicgstab, and 1 / (1 - gamma P(s, s))."),
    kernel<bicgstab<i32>, bicgstab<i64>>("bicgstab",
                                         "pointer successor weight inverse transposed b tolerance most x work",
                                         "x = (I - gamma P)^-1 b, or with P'; how many steps it took."),
};

inline constexpr Constant constants[] = {{"WORK_VECTORS", WORK_VECTORS}, {"MAX_BLOCK", MAX_BLOCK}};

inline const Subject listed =
    subject("chains", "The Markov chain of one policy and its linear systems.", kernels, constants);

}  // namespace cautious::chains
