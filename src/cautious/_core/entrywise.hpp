// Formulas on long arrays, entry by entry: written once, worked on in vectors, and one by one at the end.
//
// A formula is a generic function of a number and a place,
//
//     entrywise(x.size, [&](auto number, i64 i) { put(out, i, at(number, x, i) * at(number, y, i)); });
//
// and is called with a vector or with a single number, whose value says nothing.
#pragma once
#include <array>
#include "vec.hpp"

namespace cautious {

using Wide = Vec<double, REGISTER_BYTES / 8>;

inline double multiply_add(double a, double b, double c) {
#if defined(__FMA__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}
inline double larger(double a, double b) { return a > b ? a : b; }

// The smaller of two numbers, b where a is not a number.
inline double smaller(double a, double b) { return a < b ? a : b; }
inline Wide smaller(Wide a, Wide b) {
    for (int i = 0; i < Wide::PARTS; ++i) a.part[i] = a.part[i] < b.part[i] ? a.part[i] : b.part[i];
    return a;
}

// The numbers of an array at a place, and a number in all places of a vector.
inline double at(double, In<double> x, i64 i) { return x[i]; }
inline Wide at(const Wide&, In<double> x, i64 i) { return Wide::load(x.data + i); }
inline double all(double, double value) { return value; }
inline Wide all(const Wide&, double value) { return Wide::all(value); }

inline void put(Out<double> out, i64 i, double value) { out[i] = value; }
inline void put(Out<double> out, i64 i, const Wide& value) { value.store(out.data + i); }

template <class F>
void entrywise(i64 size, F formula) {
    i64 i = 0;
    for (; i + Wide::WIDTH <= size; i += Wide::WIDTH) formula(Wide{}, i);
    for (; i < size; ++i) formula(0.0, i);
}

// The sums, over all entries, of the K numbers that a formula returns as an array.
template <int K, class F>
std::array<double, K> sums(i64 size, F formula) {
    std::array<Wide, K> wide;
    wide.fill(Wide::all(0.0));
    std::array<double, K> found;
    i64 i = 0;
    for (; i + Wide::WIDTH <= size; i += Wide::WIDTH) {
        std::array<Wide, K> here = formula(Wide{}, i);
        for (int k = 0; k < K; ++k) wide[k] = wide[k] + here[k];
    }
    for (int k = 0; k < K; ++k) found[k] = wide[k].sum();
    for (; i < size; ++i) {
        std::array<double, K> here = formula(0.0, i);
        for (int k = 0; k < K; ++k) found[k] += here[k];
    }
    return found;
}

// The largest of each, and of `least`; entries that are not numbers are overlooked.
template <int K, class F>
std::array<double, K> maxima(i64 size, double least, F formula) {
    std::array<Wide, K> wide;
    wide.fill(Wide::all(least));
    std::array<double, K> found;
    i64 i = 0;
    for (; i + Wide::WIDTH <= size; i += Wide::WIDTH) {
        std::array<Wide, K> here = formula(Wide{}, i);
        for (int k = 0; k < K; ++k) wide[k] = larger(here[k], wide[k]);
    }
    for (int k = 0; k < K; ++k) found[k] = wide[k].largest();
    for (; i < size; ++i) {
        std::array<double, K> here = formula(0.0, i);
        for (int k = 0; k < K; ++k) found[k] = larger(here[k], found[k]);
    }
    return found;
}

}  // namespace cautious
