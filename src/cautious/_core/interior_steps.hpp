// The entry-by-entry work of the interior point method, each formula in one pass and without temporaries.
//
// Legend: x and z are variables and multipliers, dx and dz a step; the first `n_free` products x z tend to zero, those
// after them to `targets`, which is zero except for barriers; `wanted` are the changes of the products that a direction
// has to make. An entry with a kink is `away` from its prior by t - s; of_t and of_s are the multipliers of t and s,
// the latter the kink's slope u. Products of t and s with theirs are to change by wanted_t and wanted_s.
#pragma once
#include "binding.hpp"
#include "entrywise.hpp"

namespace cautious::interior_steps {

// steps are at most 1 / MIN_RATE
inline constexpr double MIN_RATE = 1e-30;

template <class... Arrays>
bool all_of_size(i64 size, const Arrays&... arrays) {
    return ((arrays.size == size) && ...);
}

// The largest step that keeps x + step * change >= 0.
inline double reach(In<double> x, In<double> change) {
    REQUIRE(change.size == x.size);
    auto rate = maxima<1>(x.size, MIN_RATE, [&](auto v, i64 i) {
        return std::array{(all(v, 0.0) - at(v, change, i)) / at(v, x, i)};
    });
    return 1 / rate[0];
}

// As `reach`, for the steps that are one, two, three and four quarters on the way from a change to another.
inline std::tuple<double, double, double, double> reaches(In<double> x, In<double> change, In<double> other) {
    REQUIRE(all_of_size(x.size, change, other));
    auto rates = maxima<4>(x.size, MIN_RATE, [&](auto v, i64 i) {
        auto scale = all(v, -1.0) / at(v, x, i);
        auto first = scale * at(v, change, i), last = scale * at(v, other, i), way = last - first;
        return std::array{multiply_add(all(v, 0.25), way, first), multiply_add(all(v, 0.5), way, first),
                          multiply_add(all(v, 0.75), way, first), last};
    });
    return {1 / rates[0], 1 / rates[1], 1 / rates[2], 1 / rates[3]};
}

// The largest |x|; entries that are not numbers are overlooked.
inline double furthest(In<double> x) {
    return maxima<1>(x.size, 0.0, [&](auto v, i64 i) {
        auto here = at(v, x, i);
        return std::array{larger(here, all(v, 0.0) - here)};
    })[0];
}

// The largest x - y, if any is above zero; entries that are not numbers are overlooked.
inline double excess(In<double> x, In<double> y) {
    REQUIRE(y.size == x.size);
    return maxima<1>(x.size, 0.0, [&](auto v, i64 i) { return std::array{at(v, x, i) - at(v, y, i)}; })[0];
}

// (mean now, mean after the step) of the products that tend to zero.
inline std::tuple<double, double> mean_product(In<double> x, In<double> z, In<double> dx, In<double> dz, double along,
                                               double along_dual, i64 n_free, In<double> targets) {
    REQUIRE(all_of_size(x.size, z, dx, dz, targets) && n_free >= 0 && n_free <= x.size);
    auto products = [&](auto v, i64 i) {
        auto here = at(v, x, i), dual = at(v, z, i);
        return std::array{here * dual, multiply_add(all(v, along), at(v, dx, i), here) *
                                           multiply_add(all(v, along_dual), at(v, dz, i), dual)};
    };
    auto [now, then] = sums<2>(n_free, products);
    i64 count = n_free;
    for (i64 i = n_free; i < x.size; ++i) {
        if (targets[i] != 0.0) continue;
        auto [more_now, more_then] = products(One{}, i);
        now += more_now[0], then += more_then[0], ++count;
    }
    double most = static_cast<double>(std::max<i64>(count, 1));
    return {now / most, then / most};
}

// `wanted` of the predictor: all the way.
inline Done straight(In<double> x, In<double> z, In<double> targets, Out<double> wanted) {
    REQUIRE(all_of_size(x.size, z, targets, wanted));
    entrywise(x.size, [&](auto v, i64 i) { put(wanted, i, at(v, targets, i) - at(v, x, i) * at(v, z, i)); });
    return {};
}

// `wanted` of the corrector: to `aim`, less the second order of the predictor, at most `most`.
//
// The second order of a barrier's product says little far from its target, and is left out.
inline Done curved(In<double> x, In<double> z, In<double> dx, In<double> dz, double aim, double most, i64 n_free,
                   In<double> targets, Out<double> wanted) {
    REQUIRE(all_of_size(x.size, z, dx, dz, targets, wanted) && n_free >= 0 && n_free <= x.size);
    auto correct = [&](auto v, i64 i) {
        auto second = smaller(larger(at(v, dx, i) * at(v, dz, i), all(v, -most)), all(v, most));
        put(wanted, i, all(v, aim) - at(v, x, i) * at(v, z, i) - second);
    };
    entrywise(n_free, correct);
    for (i64 i = n_free; i < x.size; ++i) {
        correct(One{}, i);
        if (targets[i] != 0.0) wanted[i] = targets[i] - x[i] * z[i];
    }
    return {};
}

// `wanted` of a further correction to a step.
//
// Products that a longer step, of these lengths, would leave far from `aim` are drawn back.
inline Done centred(In<double> x, In<double> z, In<double> dx, In<double> dz, double along, double along_dual,
                    double aim, i64 n_free, In<double> targets, Out<double> wanted) {
    REQUIRE(all_of_size(x.size, z, dx, dz, targets, wanted) && n_free >= 0 && n_free <= x.size);
    auto draw_back = [&](auto v, i64 i) {
        auto here = at(v, x, i), dual = at(v, z, i), change = at(v, dx, i), dual_change = at(v, dz, i);
        auto then = (here + all(v, along) * change) * (dual + all(v, along_dual) * dual_change);
        auto near = smaller(larger(then, all(v, 0.1 * aim)), all(v, 10 * aim));
        put(wanted, i, here * dual_change + dual * change + larger(near - then, all(v, -10 * aim)));
    };
    entrywise(n_free, draw_back);
    for (i64 i = n_free; i < x.size; ++i) {
        draw_back(One{}, i);
        if (targets[i] != 0.0) wanted[i] = x[i] * dz[i] + z[i] * dx[i];
    }
    return {};
}

// out = residual + wanted / x.
inline Done pushed(In<double> residual, In<double> wanted, In<double> x, Out<double> out) {
    REQUIRE(all_of_size(x.size, residual, wanted, out));
    entrywise(x.size, [&](auto v, i64 i) { put(out, i, at(v, residual, i) + at(v, wanted, i) / at(v, x, i)); });
    return {};
}

// out = x + length * change.
inline Done moved(In<double> x, In<double> change, double length, Out<double> out) {
    REQUIRE(all_of_size(x.size, change, out));
    entrywise(x.size, [&](auto v, i64 i) { put(out, i, at(v, x, i) + all(v, length) * at(v, change, i)); });
    return {};
}

// other = change + share * (other - change).
inline Done draw(In<double> change, Out<double> other, double share) {
    REQUIRE(other.size == change.size);
    entrywise(change.size, [&](auto v, i64 i) {
        auto from = at(v, change, i);
        put(other, i, from + all(v, share) * (at(v, other, i) - from));
    });
    return {};
}

// dz for which x dz + z dx = wanted; returns what `reach` says of x and of z.
inline std::tuple<double, double> changes(In<double> x, In<double> z, In<double> wanted, In<double> dx,
                                          Out<double> dz) {
    REQUIRE(all_of_size(x.size, z, wanted, dx, dz));
    auto [rate, rate_dual] = maxima<2>(x.size, MIN_RATE, [&](auto v, i64 i) {
        auto back = all(v, 0.0) - at(v, dx, i), dual = at(v, z, i), share = all(v, 1.0) / at(v, x, i);
        auto found = share * multiply_add(dual, back, at(v, wanted, i));
        put(dz, i, found);
        return std::array{share * back, (all(v, 0.0) - found) / dual};
    });
    return {1 / rate, 1 / rate_dual};
}

// curvature = 1 / (z / y + curvature).
inline Done soften(In<double> y, In<double> z, Out<double> curvature) {
    REQUIRE(all_of_size(y.size, z, curvature));
    entrywise(y.size, [&](auto v, i64 i) {
        auto here = at(v, y, i);
        put(curvature, i, here / (at(v, z, i) + at(v, curvature, i) * here));
    });
    return {};
}

// The sum of the products of two opposite variables, such as the sides of a kink, once they have cancelled.
inline double opposed(In<double> x, In<double> other, In<double> z, In<double> of_other) {
    REQUIRE(all_of_size(x.size, other, z, of_other));
    return sums<1>(x.size, [&](auto v, i64 i) {
        auto net = at(v, x, i) - at(v, other, i), none = all(v, 0.0);
        return std::array{larger(net, none) * at(v, z, i) + larger(none - net, none) * at(v, of_other, i)};
    })[0];
}

// Changes of the flows (first along, then against the edges) for a change of potentials.
//
// What they carry away is taken from `missing`, unless it is empty.
inline Done flow_changes(In<i64> tail, In<i64> head, In<double> potentials, In<double> x, In<double> z,
                         In<double> wanted, Out<double> dx, Out<double> dz, Out<double> missing) {
    i64 n_edges = tail.size;
    REQUIRE(head.size == n_edges && all_of_size(2 * n_edges, x, z, wanted, dx, dz));
    REQUIRE(missing.size == 0 || missing.size == potentials.size);
    for (i64 e = 0; e < n_edges; ++e) {
        double difference = potentials[tail[e]] - potentials[head[e]];
        dz[e] = -difference;
        dz[e + n_edges] = difference;
    }
    entrywise(dx.size, [&](auto v, i64 i) {
        put(dx, i, (at(v, wanted, i) - at(v, x, i) * at(v, dz, i)) / at(v, z, i));
    });
    for (i64 e = 0; missing.size > 0 && e < n_edges; ++e) {
        double net = dx[e] - dx[e + n_edges];
        missing[tail[e]] -= net;
        missing[head[e]] += net;
    }
    return {};
}

// How much a kink's slope u changes with its entry.
inline Done kink_curvature(In<double> t, In<double> s, In<double> of_t, In<double> of_s, Out<double> out) {
    REQUIRE(all_of_size(t.size, s, of_t, of_s, out));
    // a division less than with three quotients, and no product of multipliers, which may be tiny
    entrywise(t.size, [&](auto v, i64 i) {
        auto dual = at(v, of_t, i);
        put(out, i, dual / (at(v, t, i) + at(v, s, i) * (dual / at(v, of_s, i))));
    });
    return {};
}

// The change of a kink's slope u when its entry does not change; `bend` is its curvature.
//
// It is subtracted from `less`, unless that is empty.
inline Done kink_offset(In<double> away, In<double> t, In<double> s, In<double> of_t, In<double> of_s,
                        In<double> wanted_t, In<double> wanted_s, In<double> bend, Out<double> out, Out<double> less) {
    REQUIRE(all_of_size(t.size, away, s, of_t, of_s, wanted_t, wanted_s, bend, out));
    REQUIRE(less.size == 0 || less.size == t.size);
    entrywise(t.size, [&](auto v, i64 i) {
        auto residual = at(v, away, i) - at(v, t, i) + at(v, s, i) + at(v, wanted_s, i) / at(v, of_s, i);
        auto found = at(v, bend, i) * (residual - at(v, wanted_t, i) / at(v, of_t, i));
        put(out, i, found);
        if (less.size > 0) put(less, i, at(v, less, i) - found);
    });
    return {};
}

// Changes of both sides of a kink, whose entry has this `change`, and of their multipliers.
//
// Returns how long a step may be for t and s to stay positive, and for their multipliers.
inline std::tuple<double, double> kink_changes(In<double> t, In<double> s, In<double> of_t, In<double> of_s,
                                               In<double> wanted_t, In<double> wanted_s, Out<double> dt,
                                               Out<double> ds, Out<double> dof_t, Out<double> dof_s,
                                               In<double> offset, In<double> bend, In<double> change) {
    REQUIRE(all_of_size(t.size, s, of_t, of_s, wanted_t, wanted_s, dt, ds, dof_t, dof_s, offset, bend, change));
    auto [rate, rate_dual] = maxima<2>(t.size, MIN_RATE, [&](auto v, i64 i) {
        auto none = all(v, 0.0), slope = multiply_add(at(v, bend, i), at(v, change, i), at(v, offset, i));
        put(dof_t, i, none - slope);
        put(dof_s, i, slope);
        auto above = at(v, t, i), share_above = all(v, 1.0) / at(v, of_t, i);
        auto more_above = share_above * multiply_add(above, slope, at(v, wanted_t, i));
        put(dt, i, more_above);
        auto below = at(v, s, i), share_below = all(v, 1.0) / at(v, of_s, i);
        auto more_below = share_below * multiply_add(below, none - slope, at(v, wanted_s, i));
        put(ds, i, more_below);
        return std::array{larger((none - more_above) / above, (none - more_below) / below),
                          larger(share_above * slope, share_below * (none - slope))};
    });
    return {1 / rate, 1 / rate_dual};
}

#define SIDES "t s of_t of_s "
inline const Kernel kernels[] = {
    kernel<reach>("reach", "x change", "The largest step that keeps x + step * change >= 0."),
    kernel<reaches>("reaches", "x change other", "The same for four mixtures of two changes."),
    kernel<furthest>("furthest", "x", "The largest |x|."),
    kernel<excess>("excess", "x y", "The largest x - y, if any is above zero."),
    kernel<mean_product>("mean_product", "x z dx dz along along_dual n_free targets",
                         "Means of the products that tend to zero, now and after a step."),
    kernel<straight>("straight", "x z targets wanted", "Changes of the products for the predictor."),
    kernel<curved>("curved", "x z dx dz aim most n_free targets wanted", "The same for the corrector."),
    kernel<centred>("centred", "x z dx dz along along_dual aim n_free targets wanted",
                    "The same for a further correction."),
    kernel<pushed>("pushed", "residual wanted x out", "out = residual + wanted / x."),
    kernel<moved>("moved", "x change length out", "out = x + length * change."),
    kernel<draw>("draw", "change other share", "other = change + share * (other - change)."),
    kernel<changes>("changes", "x z wanted dx dz", "dz for which x dz + z dx = wanted; how far x and z reach."),
    kernel<soften>("soften", "y z curvature", "curvature = 1 / (z / y + curvature)."),
    kernel<opposed>("opposed", "x other z of_other", "The products of opposite variables that have cancelled, summed."),
    kernel<flow_changes>("flow_changes", "tail head potentials x z wanted dx dz missing",
                         "Changes of the flows for a change of potentials."),
    kernel<kink_curvature>("kink_curvature", SIDES "out", "How much a kink's slope changes with its entry."),
    kernel<kink_offset>("kink_offset", "away " SIDES "wanted_t wanted_s bend out less",
                        "The change of a kink's slope when its entry does not change."),
    kernel<kink_changes>("kink_changes", SIDES "wanted_t wanted_s dt ds dof_t dof_s offset bend change",
                         "Changes of both sides of a kink and of their multipliers; how far they reach."),
};
#undef SIDES

inline const Subject listed =
    subject("interior_steps", "The entry-by-entry work of the interior point method.", kernels);

}  // namespace cautious::interior_steps
