// Formulas on long arrays, entry by entry, in vectors of numbers.
//
// A formula is a generic function of a vector, whose numbers say nothing, and a place,
//
//     entrywise(x.size, [&](auto v, i64 i) { put(out, i, at(v, x, i) * at(v, y, i)); });
//
// and is called for Wide vectors, and for vectors of One number at the last places.
#pragma once
#include <array>
#include "vec.hpp"

namespace cautious {

using Wide = Vec<REGISTER_BYTES / 8>;
using One = Vec<1>;

// The smaller of two numbers in each place, b where a is not a number.
template <int N>
Vec<N> smaller(Vec<N> a, Vec<N> b) {
    for (int i = 0; i < Vec<N>::PARTS; ++i) a.part[i] = a.part[i] < b.part[i] ? a.part[i] : b.part[i];
    return a;
}

// The numbers of an array from a place on, and a number in all places of a vector.
template <int N>
Vec<N> at(Vec<N>, In<double> x, i64 i) {
    return Vec<N>::load(x.data + i);
}
template <int N>
Vec<N> all(Vec<N>, double value) {
    return Vec<N>::all(value);
}
template <int N>
void put(Out<double> out, i64 i, Vec<N> value) {
    value.store(out.data + i);
}

template <class F>
void entrywise(i64 size, F formula) {
    by_lanes<Wide::WIDTH>(0, size, formula);
}

// join(a, b) of the K numbers that a formula returns as an array, over all places: sums, or maxima.
template <int K, class F, class Join>
std::pair<std::array<Wide, K>, std::array<One, K>> joined(i64 size, double first, F formula, Join join) {
    std::array<Wide, K> wide;
    std::array<One, K> last;
    wide.fill(Wide::all(first));
    last.fill(One::all(first));
    by_lanes<Wide::WIDTH>(0, size, [&]<class V>(V v, i64 i) {
        std::array<V, K> here = formula(v, i);
        for (int k = 0; k < K; ++k)
            if constexpr (std::is_same_v<V, Wide>)
                wide[k] = join(here[k], wide[k]);
            else
                last[k] = join(here[k], last[k]);
    });
    return {wide, last};
}

// The sums, over all entries, of the K numbers that a formula returns as an array.
template <int K, class F>
std::array<double, K> sums(i64 size, F formula) {
    auto [wide, last] = joined<K>(size, 0.0, formula, [](auto here, auto total) { return total + here; });
    std::array<double, K> found;
    for (int k = 0; k < K; ++k) found[k] = wide[k].sum() + last[k][0];
    return found;
}

// The largest of each, and of `least`; entries that are not numbers are overlooked.
template <int K, class F>
std::array<double, K> maxima(i64 size, double least, F formula) {
    auto [wide, last] = joined<K>(size, least, formula, [](auto here, auto most) { return larger(here, most); });
    std::array<double, K> found;
    for (int k = 0; k < K; ++k) found[k] = std::max(wide[k].largest(), last[k][0]);
    return found;
}

}  // namespace cautious
