// Exponentials of several numbers at once: the system's take one number after the other, and about five times as long.
#pragma once
#include "vec.hpp"

namespace cautious {

// As many numbers as keep the processor busy while each waits for its own power series.
inline constexpr int EXP_LANES = 2 * LANES;
using ExpVec = Vec<EXP_LANES>;

// 2^k in each place, where `n` holds whole numbers |k| <= 1023 plus the rounding constant 1.5 * 2^52.
inline ExpVec power_of_two(ExpVec n) {
    using Bits = typename Part<i64, ExpVec::WIDTH>::type;
    constexpr i64 FRACTION_BITS = 52, ONE = i64{1023} << FRACTION_BITS;
    constexpr int PARTS = ExpVec::PARTS;
    EACH_PART n.part[i] = (ExpVec::P)(((Bits)n.part[i] << FRACTION_BITS) + ONE);
    return n;
}

// exp(x) to two units of the last place; 0 and infinity where that is beyond double precision, and a number that is
// none stays one. With x = k log 2 + y, |y| <= log(2) / 2, it is 2^k times the power series of exp(y); 2^k is applied
// in two halves, so that every result is rounded once, the smallest included.
inline ExpVec exponential(ExpVec x) {
    // adding it leaves the nearest whole number in the last bits
    constexpr double ROUNDING = 1.5 * 4503599627370496.0, PER_OCTAVE = 1.4426950408889634;
    // log 2 in two parts, the first with zeros at its end, so that its product with a whole number is exact
    constexpr double OCTAVE = 6.93147180369123816490e-01, OCTAVE_REST = 1.90821492927058770002e-10;
    constexpr double INVERSE_FACTORIALS[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                             1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                             1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5,
                                             1.0,              1.0};
    const ExpVec rounding = ExpVec::all(ROUNDING);
    x = larger(ExpVec::all(-746.0), ExpVec::all(0.0) - larger(ExpVec::all(-710.0), ExpVec::all(0.0) - x));
    ExpVec k = multiply_add(x, ExpVec::all(PER_OCTAVE), rounding) - rounding;
    ExpVec half = multiply_add(k, ExpVec::all(0.5), rounding);
    ExpVec other = k - (half - rounding) + rounding;
    ExpVec y = subtract_product(subtract_product(x, k, ExpVec::all(OCTAVE)), k, ExpVec::all(OCTAVE_REST));
    ExpVec total = ExpVec::all(0.0);
    for (double factor : INVERSE_FACTORIALS) total = multiply_add(total, y, ExpVec::all(factor));
    return total * power_of_two(half) * power_of_two(other);
}

// x = exp(x) in place.
inline Done exponentials(Out<double> x) {
    i64 even = x.size - x.size % EXP_LANES;
    for (i64 i = 0; i < even; i += EXP_LANES) exponential(ExpVec::load(x.data + i)).store(x.data + i);
    double rest[EXP_LANES] = {};
    std::copy(x.data + even, x.data + x.size, rest);
    exponential(ExpVec::load(rest)).store(rest);
    std::copy(rest, rest + (x.size - even), x.data + even);
    return {};
}

}  // namespace cautious
