// Random numbers, draws from tables, counts of what was drawn, and one sweep of the practical variant of Algorithm 1:
// plan, draw, gather, move, improve, update.
//
// The Lagrangian is the paper's, L(v, lam) = <xi, v> + <lam, r + gamma P v - v> - c rho, with d = (1-gamma) lam split
// as d(s, a) = x(s) pi(a | s). Its three conditions are followed side by side, from the same samples:
//
//     q(s, a) -> E[r + gamma v(s')]                       the critic, by moving averages         gather_samples
//     x(s)    -> (1-gamma) xi(s) + gamma sum d P(s | .)   the balance of flow, likewise          move_marginal
//     pi      -> argmax of <pi, Q> - tau KL(pi || mu),    mirror ascent, optimistic: 2 Q - Q_old improve_policy
//                Q = q - u,  v(s) = sum_a pi Q - tau KL
//
// Legend, with S states, A actions and pair number s*A + a:
//
//     sums                       sparse rows P(. | s, a) whose numbers are running sums, restarted in every row
//     seed, counter              a stream of random numbers and a place in it
//     x (S,), pi, d (S*A,)       state marginal, policy, occupancy d = x pi; d_bar its weighted average
//     v (S,), q (S*A,)           multipliers, up to a constant that plays no part; estimate of E[r + gamma v(s')]
//     u (S*A,)                   (1-gamma) c gradient of the risks that are not divergences on pairs
//     tau, log_mu (S*A,)         (1-gamma) c of the divergences on pairs, and the logarithm of their prior
//     n (S*A,), w (S*A,)         samples of each pair in this sweep, and their expectation; sum w = B
//     s_next, r_hat (sum n,)     the samples' next states and rewards, pair after pair
//     zeta                       w / B = (1-delta) d + delta uniform over the allowed pairs
//     rate, eta                  steps of the averages and of the policy; gamma the discount, xi (S,) the start
//
// A hash table with linear probing maps keys to places in arrays that grow at their end: `slots` holds place + 1, or 0.
#pragma once
#include "binding.hpp"
#include "vec.hpp"

namespace cautious::sampling {

inline constexpr u64 GOLDEN = 0x9E3779B97F4A7C15;
inline constexpr double UNIT = 1.0 / 9007199254740992.0;
// a call cannot be interrupted, so that long work is asked for in pieces
inline constexpr i64 MAX_DRAWS = i64{1} << 26;

// The number in [0, 1) at this place of the stream of this seed: splitmix64 (Steele, Lea, Flood 2014).
inline double uniform(u64 seed, u64 counter) {
    u64 z = seed + (counter + 1) * GOLDEN;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return static_cast<double>(static_cast<i64>(z >> 11)) * UNIT;
}

// The first numbers of a stream.
inline Done uniforms(u64 seed, Out<double> out) {
    for (i64 i = 0; i < out.size; ++i) out[i] = uniform(seed, static_cast<u64>(i));
    return {};
}

// The first place in [low, high] with a running sum above u; the last one when rounding leaves none. It halves without
// branches, because no processor can foresee them.
inline i64 first_above(const double* sums, i64 low, i64 high, double u) {
    for (i64 left = high - low + 1; left > 1;) {
        i64 half = left / 2;
        low += half & -static_cast<i64>(sums[low + half - 1] <= u);
        left -= half;
    }
    return low;
}

// The entry of a row that a uniform number selects.
template <class I>
i64 select_entry(const Rows<I>& sums, i64 row, double u) {
    return first_above(sums.data.data, sums.first(row), sums.last(row) - 1, u);
}

// Running sums that restart in every row: one over all rows would lose digits in large models.
template <class I>
Done running_sums(Rows<I> p, Out<double> out) {
    REQUIRE(out.size == p.data.size);
    for (i64 row = 0; row < p.count(); ++row) {
        double total = 0.0;
        for (i64 k = p.first(row); k < p.last(row); ++k) out[k] = total += p.data[k];
    }
    return {};
}

// For each row, the position in the arrays of the successor that a uniform number selects.
template <class I>
Buffer<i64> draw_successors(Rows<I> sums, In<i64> rows, In<double> uniforms) {
    REQUIRE(rows.size == uniforms.size);
    Buffer<i64> out(rows.size);
    REQUIRE_MEMORY(out);
    for (i64 i = 0; i < rows.size; ++i) {
        REQUIRE(rows[i] >= 0 && rows[i] < sums.count() && sums.length(rows[i]) > 0);
        out[i] = select_entry(sums, rows[i], uniforms[i]);
    }
    return out;
}

// The sum of numbers of samples; -1 where one is negative or the sum exceeds `most`.
inline i64 total_of(In<i64> n, i64 most) {
    i64 total = 0;
    for (i64 row = 0; row < n.size; ++row) {
        // a negative number is a large one without its sign
        if (static_cast<u64>(n[row]) > static_cast<u64>(most - total)) return -1;
        total += n[row];
    }
    return total;
}

// Whether every row that is to be sampled has an entry.
template <class I>
bool sampled_rows_have_entries(const Rows<I>& p, In<i64> n) {
    for (i64 row = 0; row < n.size; ++row)
        if (n[row] > 0 && p.length(row) <= 0) return false;
    return true;
}

// Adds to a count; a count beyond 64 bits wraps around.
inline void add_to_count(i64& count, i64 more) { (void)__builtin_add_overflow(count, more, &count); }

// Draws n[row] successors of every row and counts, in `hits`, which stored entries came out.
template <class I>
Done draw_hits(Rows<I> sums, In<i64> n, u64 seed, Out<i64> hits) {
    REQUIRE(n.size == sums.count() && hits.size == sums.data.size);
    REQUIRE(total_of(n, MAX_DRAWS) >= 0 && sampled_rows_have_entries(sums, n));
    u64 counter = 0;
    for (i64 row = 0; row < n.size; ++row)
        for (i64 i = 0; i < n[row]; ++i, ++counter)
            add_to_count(hits[select_entry(sums, row, uniform(seed, counter))], 1);
    return {};
}

// Where a key is in the hash table, or where it belongs; -1 if the table is full, or holds places that are not used.
inline i64 find_slot(i64 key, In<i64> slots, In<i64> keys, i64 used) {
    u64 mask = static_cast<u64>(slots.size - 1), z = static_cast<u64>(key) * GOLDEN;
    u64 at = (z ^ (z >> 32)) & mask;
    for (i64 tried = 0; tried < slots.size; ++tried, at = (at + 1) & mask) {
        i64 held = slots[static_cast<i64>(at)];
        if (held == 0) return static_cast<i64>(at);
        if (held < 0 || held > used) return -1;
        if (keys[held - 1] == key) return static_cast<i64>(at);
    }
    return -1;
}

inline bool is_power_of_two(i64 size) { return size > 0 && (size & (size - 1)) == 0; }

// Enters the first `used` keys, all different, into an empty hash table.
inline Done fill_slots(Out<i64> slots, In<i64> keys, i64 used) {
    REQUIRE(is_power_of_two(slots.size) && used >= 0 && used <= keys.size && used < slots.size);
    for (i64 place = 0; place < used; ++place) {
        i64 at = find_slot(keys[place], slots, keys, used);
        REQUIRE(at >= 0);
        slots[at] = place + 1;
    }
    return {};
}

// Adds groups of rewards; returns how many different keys there are now. A group is its size, one of its rewards, and
// the sums of deviations from that reward and of their squares.
inline i64 add_groups(Out<i64> slots, Out<i64> keys, Out<i64> count, Out<double> first, Out<double> shift,
                      Out<double> square, i64 used, In<i64> new_keys, In<i64> new_count, In<double> new_first,
                      In<double> new_shift, In<double> new_square) {
    REQUIRE(count.size == keys.size && first.size == keys.size && shift.size == keys.size && square.size == keys.size);
    REQUIRE(new_count.size == new_keys.size && new_first.size == new_keys.size && new_shift.size == new_keys.size &&
            new_square.size == new_keys.size);
    REQUIRE(used >= 0 && used <= keys.size && new_keys.size <= keys.size - used);
    REQUIRE(is_power_of_two(slots.size) && slots.size > keys.size);
    for (i64 i = 0; i < new_keys.size; ++i) {
        i64 at = find_slot(new_keys[i], slots, keys, used);
        REQUIRE(at >= 0);
        if (slots[at] == 0) {
            keys[used] = new_keys[i];
            first[used] = new_first[i];
            slots[at] = ++used;
        }
        i64 place = slots[at] - 1;
        double n = static_cast<double>(new_count[i]), move = new_first[i] - first[place];
        add_to_count(count[place], new_count[i]);
        shift[place] += new_shift[i] + n * move;
        square[place] += new_square[i] + 2 * move * new_shift[i] + n * move * move;
    }
    return used;
}

// Systematic sampling: fills w and n, where n is w rounded up or down and E[n] = w; returns the sum of n. `offset` is
// uniform in [0, 1). One pass, memory in order, no table to search.
inline i64 plan_samples(In<double> d, In<bool> allowed, double delta, i64 batch, double offset, Out<double> w,
                        Out<i64> n) {
    REQUIRE(allowed.size == d.size && w.size == d.size && n.size == d.size);
    REQUIRE(batch >= 0 && batch <= i64{1} << 53 && delta >= 0.0 && delta <= 1.0 && offset >= 0.0 && offset < 1.0);
    double total = 0.0, least = 0.0;
    i64 count = 0;
    for (i64 row = 0; row < d.size; ++row) {
        total += d[row];
        least = std::min(least, d[row]);
        count += allowed[row];
    }
    double size = static_cast<double>(batch);
    double by_d = size * (1.0 - delta) / total, by_pair = size * delta / static_cast<double>(count);
    // then no sum below can leave the range of whole numbers
    REQUIRE(count > 0 && least == 0.0 && total > 0.0 && std::isfinite(total) && std::isfinite(by_d));
    // a factor instead of a branch, which no processor could foresee
    const double one_if_allowed[] = {0.0, 1.0};
    double upto = offset;
    i64 before = 0;
    for (i64 row = 0; row < d.size; ++row) {
        w[row] = one_if_allowed[allowed[row]] * (by_d * d[row] + by_pair);
        upto += w[row];
        i64 whole = static_cast<i64>(upto);
        n[row] = whole - before;
        before = whole;
    }
    return before;
}

// Fills s_next and r_hat from the rows of a table; uses the random numbers from `counter` on. `pay` is a reward per
// stored outcome, or per pair.
template <class I>
Done draw_samples(Rows<I> sums, In<double> pay, bool pay_per_outcome, In<i64> n, u64 seed, u64 counter,
                  Out<i64> s_next, Out<double> r_hat) {
    REQUIRE(n.size == sums.count() && pay.size == (pay_per_outcome ? sums.data.size : n.size));
    REQUIRE(r_hat.size == s_next.size && total_of(n, s_next.size) == s_next.size);
    REQUIRE(sampled_rows_have_entries(sums, n));
    for (i64 row = 0, i = 0; row < n.size; ++row)
        for (i64 last = i + n[row]; i < last; ++i) {
            i64 at = select_entry(sums, row, uniform(seed, counter + static_cast<u64>(i)));
            s_next[i] = sums.indices[at];
            r_hat[i] = pay[pay_per_outcome ? at : row];
        }
    return {};
}

// a^n for n >= 0, by repeated squares up to a limit. It rounds unlike std::pow, and must round as it always did: a run
// that goes on from a checkpoint repeats one that was not interrupted.
inline double whole_power(double a, i64 n) {
    if (n > 0x10000) return std::pow(a, static_cast<double>(n));
    double result = 1.0;
    for (; n != 0; n >>= 1, a *= a)
        if (n & 1) result *= a;
    return result;
}

// Moves q towards the samples, in place, and fills inflow (S,) with the unbiased estimate of sum d P(s | .). n samples
// count as n steps of the moving average.
inline Done gather_samples(In<i64> n, In<double> w, In<i64> s_next, In<double> r_hat, In<double> d, In<double> v,
                           double gamma, double rate, Out<double> q, Out<double> inflow) {
    REQUIRE(w.size == n.size && d.size == n.size && q.size == n.size && inflow.size == v.size);
    REQUIRE(r_hat.size == s_next.size && total_of(n, s_next.size) == s_next.size);
    inflow.fill(0.0);
    for (i64 row = 0, i = 0; row < n.size; ++row) {
        if (n[row] == 0) continue;
        double mass = d[row] / w[row], total = 0.0;
        for (i64 last = i + n[row]; i < last; ++i) {
            i64 s = s_next[i];
            REQUIRE(s >= 0 && s < v.size);
            total += r_hat[i] + gamma * v[s];
            inflow[s] += mass;
        }
        q[row] += (1.0 - whole_power(1.0 - rate, n[row])) * (total / static_cast<double>(n[row]) - q[row]);
    }
    return {};
}

// Adds the rewards and the numbers of samples of each pair, in place.
inline Done add_rewards(In<i64> n, In<double> r_hat, Out<double> paid, Out<i64> drawn) {
    REQUIRE(paid.size == n.size && drawn.size == n.size);
    i64 i = 0;
    for (i64 row = 0; row < n.size; ++row) {
        REQUIRE(n[row] >= 0 && n[row] <= r_hat.size - i);
        double total = paid[row];
        for (i64 last = i + n[row]; i < last; ++i) total += r_hat[i];
        paid[row] = total;
        add_to_count(drawn[row], n[row]);
    }
    REQUIRE(i == r_hat.size);
    return {};
}

// Moves the state marginal towards balance, in place; the estimate is scaled to mass one first. `y_bar` averages these
// estimates of where the mass goes, with `weight` as update_occupancy averages d.
inline Done move_marginal(In<double> inflow, In<double> xi, double gamma, double rate, double weight, Out<double> x,
                          Out<double> y_bar) {
    REQUIRE(inflow.size == x.size && xi.size == x.size && y_bar.size == x.size);
    double total = 0.0;
    for (i64 s = 0; s < x.size; ++s) total += (1.0 - gamma) * xi[s] + gamma * inflow[s];
    by_lanes(0, x.size, [=]<class V>(V, i64 s) {
        V arriving = V::all(1.0 - gamma) * V::load(xi.data + s) + V::all(gamma) * V::load(inflow.data + s);
        V y = arriving / V::all(total), now = V::load(x.data + s), average = V::load(y_bar.data + s);
        (now + V::all(rate) * (y - now)).store(x.data + s);
        (average + V::all(weight) * (y - average)).store(y_bar.data + s);
    });
    return {};
}

// Standard deviation of u under zeta: how strongly the risk pulls, in rewards per step.
inline double weighted_deviation(In<double> u, In<double> w) {
    REQUIRE(u.size == w.size);
    double total = 0.0, mean = 0.0, square = 0.0;
    for (i64 row = 0; row < u.size; ++row) {
        total += w[row];
        mean += w[row] * u[row];
    }
    mean /= total;
    for (i64 row = 0; row < u.size; ++row) square += w[row] * ((u[row] - mean) * (u[row] - mean));
    return std::sqrt(square / total);
}

// Adds tau log x(s), the part of the gradient of a divergence on pairs that does not depend on the action.
inline Done add_log_marginal(In<double> x, double tau, double floor, Out<double> u) {
    i64 n_actions = evenly(u.size, x.size);
    REQUIRE(n_actions > 0);
    for (i64 s = 0, row = 0; s < x.size; ++s) {
        double extra = tau * std::log(std::max(x[s], floor));
        for (i64 a = 0; a < n_actions; ++a, ++row) u[row] += extra;
    }
    return {};
}

// The policy's step; overwrites big_q with Q = q - u, log_pi with the new policy, v with its values. `big_q` holds Q of
// the sweep before on entry. `log_mu` is not read when tau = 0. A state without pairs gets 0; see update_occupancy.
inline Done improve_policy(In<double> q, In<double> u, In<bool> allowed, double eta, double tau, In<double> log_mu,
                           Out<double> big_q, Out<double> log_pi, Out<double> v) {
    i64 n_actions = evenly(q.size, v.size);
    bool divergence = tau > 0.0;
    REQUIRE(n_actions > 0 && u.size == q.size && allowed.size == q.size && big_q.size == q.size);
    REQUIRE(log_pi.size == q.size && (!divergence || log_mu.size == q.size));
    for (i64 s = 0; s < v.size; ++s) {
        i64 first = s * n_actions, last = first + n_actions;
        double top = -INFINITE, total = 0.0, value = 0.0;
        for (i64 row = first; row < last; ++row) {
            if (!allowed[row]) continue;
            double now = q[row] - u[row];
            double moved = log_pi[row] + eta * (2.0 * now - big_q[row]);
            if (divergence) moved = (moved + eta * tau * log_mu[row]) / (1.0 + eta * tau);
            log_pi[row] = moved;
            big_q[row] = now;
            top = std::max(top, moved);
        }
        for (i64 row = first; row < last; ++row)
            if (allowed[row]) total += std::exp(log_pi[row] - top);
        double shift = top + std::log(total);
        for (i64 row = first; row < last; ++row) {
            if (!allowed[row]) continue;
            log_pi[row] -= shift;
            double cost = divergence ? tau * (log_pi[row] - log_mu[row]) : 0.0;
            value += std::exp(log_pi[row]) * (big_q[row] - cost);
        }
        v[s] = value;
    }
    return {};
}

inline bool any_of(In<bool> truths) { return std::find(truths.begin(), truths.end(), true) != truths.end(); }

// Centres v at its mean under x, sets d = x pi, and moves the average d_bar towards d by `weight`. A state without
// pairs is forbidden: its v is put `horizon` below all others, so that ways there look bad.
inline Done update_occupancy(In<bool> allowed, In<double> log_pi, In<double> x, double weight, double horizon,
                             Out<double> v, Out<double> d, Out<double> d_bar) {
    i64 n_actions = evenly(d.size, x.size);
    REQUIRE(n_actions > 0 && v.size == x.size);
    REQUIRE(allowed.size == d.size && log_pi.size == d.size && d_bar.size == d.size);
    double mean = 0.0, mass = 0.0, lowest = INFINITE;
    for (i64 s = 0; s < x.size; ++s) {
        if (!any_of(allowed.part(s * n_actions, (s + 1) * n_actions))) continue;
        mean += x[s] * v[s];
        mass += x[s];
        lowest = std::min(lowest, v[s]);
    }
    mean /= mass;
    for (i64 s = 0, row = 0; s < x.size; ++s) {
        bool alive = any_of(allowed.part(s * n_actions, (s + 1) * n_actions));
        v[s] = (alive ? v[s] : lowest - horizon) - mean;
        for (i64 a = 0; a < n_actions; ++a, ++row) {
            d[row] = allowed[row] ? x[s] * std::exp(log_pi[row]) : 0.0;
            d_bar[row] += weight * (d[row] - d_bar[row]);
        }
    }
    return {};
}

inline const Kernel kernels[] = {
    kernel<uniform>("uniform", "seed counter", "The number in [0, 1) at a place of the stream of a seed."),
    kernel<uniforms>("uniforms", "seed out", "The first numbers of a stream."),
    kernel<running_sums<i32>, running_sums<i64>>("running_sums", "indptr indices data out",
                                                 "Running sums that restart in every row."),
    kernel<draw_successors<i32>, draw_successors<i64>>(
        "draw_successors", "indptr indices cumulative rows uniforms",
        "For each row, the position in the arrays of the successor that a uniform number selects."),
    kernel<draw_hits<i32>, draw_hits<i64>>("draw_hits", "indptr indices cumulative n seed hits",
                                           "Draw n successors of every row; hits counts which entries came out."),
    kernel<fill_slots>("fill_slots", "slots keys used",
                       "Enter the first keys, all different, into an empty hash table."),
    kernel<add_groups>("add_groups",
                       "slots keys count first shift square used new_keys new_count new_first new_shift new_square",
                       "Add groups of rewards; returns how many different keys there are now."),
    kernel<plan_samples>("plan_samples", "d allowed delta batch offset w n",
                         "Systematic sampling: how often to draw each pair; returns the sum of n."),
    kernel<draw_samples<i32>, draw_samples<i64>>(
        "draw_samples", "indptr indices cumulative pay pay_per_outcome n seed counter s_next r_hat",
        "Draw next states and rewards from the rows of a table."),
    kernel<gather_samples>("gather_samples", "n w s_next r_hat d v gamma rate q inflow",
                           "Move q towards the samples, and estimate the flow into every state."),
    kernel<add_rewards>("add_rewards", "n r_hat paid drawn",
                        "Add the rewards and the numbers of samples of each pair."),
    kernel<move_marginal>("move_marginal", "inflow xi gamma rate weight x y_bar",
                          "Move the state marginal and its average towards balance."),
    kernel<weighted_deviation>("weighted_deviation", "u w", "Standard deviation of u under the weights w."),
    kernel<add_log_marginal>("add_log_marginal", "x tau floor u", "Add tau log x(s) to every pair of s."),
    kernel<improve_policy>("improve_policy", "q u allowed eta tau log_mu big_q log_pi v",
                           "The policy's step; overwrites Q, the policy and its values."),
    kernel<update_occupancy>("update_occupancy", "allowed log_pi x weight horizon v d d_bar",
                             "Centre v, set d = x pi, and move the average of d."),
};

inline const Subject listed =
    subject("sampling", "Random numbers, draws from tables, counts, and sweeps of the practical Algorithm 1.",
            kernels);

}  // namespace cautious::sampling
