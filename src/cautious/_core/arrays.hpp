// What a kernel is handed, what it may allocate, and how it refuses.
//
// A kernel is a free function. Its parameters are numbers and the arrays below; it returns a number, a Buffer, a
// std::tuple of those, or Done. It never touches Python: the binding converts, and the GIL is released while it runs.
// Exceptions are switched off. A kernel first says what it needs,
//
//     REQUIRE(out.size == v.size);          ValueError: planning.evaluate needs out.size == v.size
//     Buffer<i64> stack(v.size);
//     REQUIRE_MEMORY(stack);                MemoryError
//
// so that no call through the binding can read or write beyond an array, given valid entries of index arrays.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cautious {

using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u64 = std::uint64_t;

inline constexpr double INFINITE = std::numeric_limits<double>::infinity();
inline constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

// Contiguous numbers that belong to somebody else.
template <class T>
struct Span {
    T* data = nullptr;
    i64 size = 0;

    T& operator[](i64 i) const {
#ifdef CAUTIOUS_CHECKED
        if (i < 0 || i >= size) __builtin_trap();
#endif
        return data[i];
    }
    T* begin() const { return data; }
    T* end() const { return data + size; }
    Span part(i64 first, i64 last) const {
#ifdef CAUTIOUS_CHECKED
        if (first < 0 || last < first || last > size) __builtin_trap();
#endif
        return {data + first, last - first};
    }
    void fill(T value) const {
        for (i64 i = 0; i < size; ++i) data[i] = value;
    }
    operator Span<const T>() const
        requires(!std::is_const_v<T>)
    {
        return {data, size};
    }
};

template <class T>
using In = Span<const T>;
template <class T>
using Out = Span<T>;

// Ascending order. The comparison is written out because libc++ has the sort by the usual one in its library, and
// extensions are linked with none.
template <class T>
void sort(Span<T> x) {
    std::sort(x.begin(), x.end(), [](const T& a, const T& b) { return a < b; });
}

// A table by rows.
template <class T>
struct Matrix {
    T* data = nullptr;
    i64 rows = 0, columns = 0;

    T& operator()(i64 i, i64 j) const { return row(i)[j]; }
    Span<T> row(i64 i) const {
#ifdef CAUTIOUS_CHECKED
        if (i < 0 || i >= rows) __builtin_trap();
#endif
        return {data + i * columns, columns};
    }
    operator Matrix<const T>() const
        requires(!std::is_const_v<T>)
    {
        return {data, rows, columns};
    }
};

// Sparse rows: row i has the entries indptr[i] to indptr[i + 1] of `indices` and `data`. Three arrays in Python.
template <class I>
struct Rows {
    In<I> indptr, indices;
    In<double> data;

    i64 count() const { return indptr.size - 1; }
    i64 first(i64 row) const { return indptr[row]; }
    i64 last(i64 row) const { return indptr[row + 1]; }
    i64 length(i64 row) const { return last(row) - first(row); }
};

// The rows of all pairs of some neighbouring states, of which `base` is the first: a number and three arrays in Python.
// A model that is written down is one such block. Loops over blocks are handed vectors of all states.
template <class I>
struct Block {
    i64 base;
    Rows<I> rows;

    i64 count(i64 n_actions) const { return rows.count() / n_actions; }
    i64 end(i64 n_actions) const { return base + count(n_actions); }
    // the first row of a state
    i64 row(i64 s, i64 n_actions) const { return (s - base) * n_actions; }
    // whether these are states of a model of this size
    bool fits(i64 n_states, i64 n_actions) const {
        return n_actions > 0 && base >= 0 && rows.count() % n_actions == 0 && count(n_actions) <= n_states - base;
    }
};

// The same without numbers: two arrays in Python.
template <class I>
struct Pattern {
    In<I> indptr, indices;

    i64 count() const { return indptr.size - 1; }
    i64 first(i64 row) const { return indptr[row]; }
    i64 last(i64 row) const { return indptr[row + 1]; }
    i64 length(i64 row) const { return last(row) - first(row); }
};

// The result of a kernel that only writes into its arguments.
struct Done {};

enum class Fault { none, requirement, memory };

struct Failure {
    Fault fault = Fault::none;
    const char* text = nullptr;
};

inline thread_local Failure failure;

// Converts to whatever a kernel returns; the binding raises and drops it.
struct Refused {
    template <class T>
    operator T() const {
        return T{};
    }
};

[[gnu::cold]] inline Refused refuse(Fault fault, const char* text) {
    failure = {fault, text};
    return {};
}

#define REQUIRE(...)                                                                                              \
    if (!(__VA_ARGS__)) [[unlikely]]                                                                              \
    return ::cautious::refuse(::cautious::Fault::requirement, #__VA_ARGS__)

#define REQUIRE_MEMORY(...)                                                                                       \
    if (!::cautious::all_made(__VA_ARGS__)) [[unlikely]]                                                          \
    return ::cautious::refuse(::cautious::Fault::memory, nullptr)

// Numbers of one's own: scratch, or a result, which becomes a NumPy array of one dimension, or two if it has columns.
template <class T>
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(i64 count) : size(count < 0 ? 0 : count) {
        // more bytes than can be counted are not asked for
        constexpr i64 MOST = std::numeric_limits<i64>::max() / static_cast<i64>(sizeof(T));
        if (size <= MOST) data = static_cast<T*>(std::malloc(size > 0 ? static_cast<std::size_t>(size) * sizeof(T) : 1));
    }
    Buffer(i64 count, T value) : Buffer(count) {
        for (i64 i = 0; data != nullptr && i < size; ++i) data[i] = value;
    }
    static Buffer table(i64 rows, i64 columns, T value) {
        Buffer made(rows * columns, value);
        made.columns = columns;
        return made;
    }
    Buffer(Buffer&& other) noexcept : data(other.data), size(other.size), columns(other.columns) {
        other.data = nullptr;
    }
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data, other.data);
        std::swap(size, other.size);
        std::swap(columns, other.columns);
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { std::free(data); }

    T& operator[](i64 i) const { return span()[i]; }
    Span<T> span() const { return {data, size}; }
    operator Span<T>() const { return span(); }
    operator Span<const T>() const { return {data, size}; }
    Matrix<T> matrix() const { return {data, columns > 0 ? size / columns : 0, columns}; }
    void shorten(i64 count) { size = count; }

    T* data = nullptr;
    i64 size = 0, columns = -1;
};

template <class... T>
bool all_made(const Buffer<T>&... buffers) {
    return ((buffers.data != nullptr) && ...);
}

// How many actions each state has if `pairs` belong to `states` evenly; 0 if they do not.
inline i64 evenly(i64 pairs, i64 states) { return states > 0 && pairs % states == 0 ? pairs / states : 0; }

// Whether all numbers lie in [low, high).
inline bool all_within(In<i64> numbers, i64 low, i64 high) {
    for (i64 i : numbers)
        if (i < low || i >= high) return false;
    return true;
}

}  // namespace cautious
