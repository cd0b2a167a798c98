// Vectors of numbers, where compilers' own vectors do not pay: short rows, sums that stay in registers.
//
// Vec<N> has N doubles and is made of parts as wide as the processor's registers, because GCC takes wider vectors apart into single
// numbers. `multiply_add` rounds once where the processor can, twice elsewhere.
#pragma once
#include "arrays.hpp"

namespace cautious {

#if defined(__AVX512F__)
inline constexpr int REGISTER_BYTES = 64;
#elif defined(__AVX__)
inline constexpr int REGISTER_BYTES = 32;
#else
inline constexpr int REGISTER_BYTES = 16;
#endif

template <class T, int N>
struct Part {
    using type [[gnu::vector_size(N * sizeof(T))]] = T;
};

template <class P>
P multiply_add_part(P a, P b, P c) {
#if defined(__clang__) && (defined(__FMA__) || defined(__aarch64__))
    return __builtin_elementwise_fma(a, b, c);
#elif defined(__clang__) || !defined(__FMA__)
    return a * b + c;
#else
#if defined(__AVX512F__)
    if constexpr (sizeof(P) == 64) return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4);
#endif
    if constexpr (sizeof(P) == 32) return __builtin_ia32_vfmaddpd256(a, b, c);
    if constexpr (sizeof(P) == 16) return __builtin_ia32_vfmaddpd(a, b, c);
    if constexpr (sizeof(P) == 8) return P{__builtin_fma(a[0], b[0], c[0])};
#endif
}

// Over all parts of a vector. Without being told, GCC unrolls more than two parts too late to keep them in registers.
#if defined(__clang__)
#define EACH_PART for (int i = 0; i < PARTS; ++i)
#else
#define EACH_PART _Pragma("GCC unroll 16") for (int i = 0; i < PARTS; ++i)
#endif

template <int N>
struct Vec {
    static constexpr int WIDTH = std::min<int>(N, REGISTER_BYTES / sizeof(double));
    static constexpr int PARTS = N / WIDTH;
    using P = typename Part<double, WIDTH>::type;

    P part[PARTS];

    // part by part: GCC would copy more than one register through memory
    static Vec load(const double* from) {
        Vec made;
        EACH_PART std::memcpy(&made.part[i], from + i * WIDTH, sizeof(P));
        return made;
    }
    static Vec all(double value) {
        Vec made;
        // compilers leave out a zero that is subtracted, but not one that is added: it would change -0
        EACH_PART made.part[i] = value - P{};
        return made;
    }
    void store(double* to) const {
        EACH_PART std::memcpy(to + i * WIDTH, &part[i], sizeof(P));
    }
    double operator[](int i) const { return part[i / WIDTH][i % WIDTH]; }

    friend Vec operator+(Vec a, Vec b) {
        EACH_PART a.part[i] += b.part[i];
        return a;
    }
    friend Vec operator-(Vec a, Vec b) {
        EACH_PART a.part[i] -= b.part[i];
        return a;
    }
    friend Vec operator*(Vec a, Vec b) {
        EACH_PART a.part[i] *= b.part[i];
        return a;
    }
    friend Vec operator/(Vec a, Vec b) {
        EACH_PART a.part[i] /= b.part[i];
        return a;
    }
    // a b + c
    friend Vec multiply_add(Vec a, Vec b, Vec c) {
        EACH_PART c.part[i] = multiply_add_part<P>(a.part[i], b.part[i], c.part[i]);
        return c;
    }
    // c - a b
    friend Vec subtract_product(Vec c, Vec a, Vec b) {
        EACH_PART c.part[i] = multiply_add_part<P>(-a.part[i], b.part[i], c.part[i]);
        return c;
    }
    // the larger of two numbers in each place, b where a is not a number
    friend Vec larger(Vec a, Vec b) {
        EACH_PART a.part[i] = a.part[i] > b.part[i] ? a.part[i] : b.part[i];
        return a;
    }
    friend Vec absolute(Vec a) { return larger(a, Vec::all(0.0) - a); }

    // The sum of a part's numbers FIRST, FIRST + STEP, ..., as if halves were added until one is left. Loops over
    // places would go through memory.
    template <int FIRST, int STEP>
    static double sum_of(const P& p) {
        if constexpr (STEP >= WIDTH)
            return p[FIRST];
        else
            return sum_of<FIRST, 2 * STEP>(p) + sum_of<FIRST + STEP, 2 * STEP>(p);
    }
    // The sum of all numbers: halves are added until one is left.
    double sum() const {
        Vec rest = *this;
        for (int half = PARTS / 2; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) rest.part[i] += rest.part[i + half];
        return sum_of<0, 1>(rest.part[0]);
    }
    double largest() const {
        double found = (*this)[0];
        for (int i = 1; i < N; ++i) found = std::max(found, (*this)[i]);
        return found;
    }
};

// The sums of four vectors.
inline Vec<4> sums_of(Vec<4> a, Vec<4> b, Vec<4> c, Vec<4> d) {
    auto sums = [](auto v, auto a, auto b, auto c, auto d) {
        if constexpr (decltype(v)::PARTS == 1) {
            auto front = __builtin_shufflevector(a.part[0], b.part[0], 0, 4, 2, 6) +
                         __builtin_shufflevector(a.part[0], b.part[0], 1, 5, 3, 7);
            auto back = __builtin_shufflevector(c.part[0], d.part[0], 0, 4, 2, 6) +
                        __builtin_shufflevector(c.part[0], d.part[0], 1, 5, 3, 7);
            v.part[0] = __builtin_shufflevector(front, back, 0, 1, 4, 5) +
                        __builtin_shufflevector(front, back, 2, 3, 6, 7);
        } else {
            auto pair = [](auto p, auto q) {
                auto first = p.part[0] + p.part[1], second = q.part[0] + q.part[1];
                return __builtin_shufflevector(first, second, 0, 2) + __builtin_shufflevector(first, second, 1, 3);
            };
            v.part[0] = pair(a, b);
            v.part[1] = pair(c, d);
        }
        return v;
    };
    return sums(Vec<4>{}, a, b, c, d);
}

// As many numbers as a loop over a long array should take at a time: two registers, so that one need not wait.
inline constexpr int LANES = 2 * REGISTER_BYTES / sizeof(double);

// Ask for what lies at an address: it is on its way while other numbers are worked on.
inline void fetch(const void* place) { __builtin_prefetch(place); }

// The inner product, summed in several lanes at once.
template <int N = LANES>
double dot(In<double> x, In<double> y) {
    auto total = Vec<N>::all(0.0);
    i64 even = x.size - x.size % N;
    for (i64 i = 0; i < even; i += N) total = multiply_add(Vec<N>::load(x.data + i), Vec<N>::load(y.data + i), total);
    double rest = 0.0;
    for (i64 i = even; i < x.size; ++i) rest += x[i] * y[i];
    return total.sum() + rest;
}

// work(V{}, i) for the places i from `first` to `last`, `last` not included: V is a vector of N numbers from place i
// on, or of one number for the last places.
template <int N = LANES, class Work>
void by_lanes(i64 first, i64 last, Work work) {
    for (; first + N <= last; first += N) work(Vec<N>{}, first);
    for (; first < last; ++first) work(Vec<1>{}, first);
}

// y += factor x.
inline void add_multiple(Out<double> y, double factor, In<double> x) {
    by_lanes(0, y.size, [=]<class V>(V, i64 i) {
        (V::load(y.data + i) + V::all(factor) * V::load(x.data + i)).store(y.data + i);
    });
}

// y = keep y + x.
inline void scale_and_add(Out<double> y, double keep, In<double> x) {
    by_lanes(0, y.size, [=]<class V>(V, i64 i) {
        (V::all(keep) * V::load(y.data + i) + V::load(x.data + i)).store(y.data + i);
    });
}

}  // namespace cautious
