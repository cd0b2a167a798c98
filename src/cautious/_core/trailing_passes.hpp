// Several evaluation passes over a chain at once, each following the one before as closely as the rows allow.
//
// A pass over a large chain waits for memory: its rows and its values have left the cache before the next pass needs
// them. Where states lead to states with similar numbers, as in a grid, a block of states can have its next pass as
// soon as the blocks that it leads to have had this one. The passes then run closely behind each other through the same
// few rows. Every number is the same as with one pass after the other, and where states lead anywhere, that is also the
// order of work.
//
// Legend: the chain P_pi, b, gamma, v and `lengths` as in planning.hpp; `ahead` and `behind`, one number per block of
// BLOCK states, from block_reach.
#pragma once
#include "planning.hpp"
#include "vec.hpp"

namespace cautious {

// iterates that are kept: a pass overwrites what the fourth pass before it has written
inline constexpr i64 KEPT = 4;
// blocks that a pass does at a time: few for the cache, many for the processor's branch prediction
inline constexpr i64 BLOCKS_PER_TURN = 16;
inline constexpr i64 MOST_PASSES = 1'000'000;

// The least and the largest of some integers.
template <class I>
std::pair<I, I> extremes(In<I> numbers) {
    constexpr int N = LANES<I>;
    I least = numbers[0], most = numbers[0];
    auto negated = Vec<I, N>::all(-least), larger_ones = Vec<I, N>::all(most);
    i64 even = numbers.size - numbers.size % N;
    for (i64 i = 0; i < even; i += N) {
        auto some = Vec<I, N>::load(&numbers[i]);
        negated = larger(negated, Vec<I, N>::all(0) - some);
        larger_ones = larger(larger_ones, some);
    }
    for (i64 i = even; i < numbers.size; ++i) {
        least = std::min(least, numbers[i]);
        most = std::max(most, numbers[i]);
    }
    return {std::min<I>(least, -negated.largest()), std::max(most, larger_ones.largest())};
}

// How far a pass must have come before the next one may do a block, and before the block may be overwritten. Both count
// blocks: `ahead` those that a block leads to, whatever the policy, and all before them; `behind` those that lead to
// it, and all before them.
template <class I>
std::tuple<Buffer<i64>, Buffer<i64>> block_reach(Pattern<I> p, i64 n_states) {
    i64 n_actions = evenly(p.count(), n_states);
    REQUIRE(n_actions > 0);
    i64 count = blocks_of(n_states);
    Buffer<i64> ahead(count), behind(count);
    REQUIRE_MEMORY(ahead, behind);
    // no pass overtakes another
    for (i64 block = 0; block < count; ++block) ahead[block] = behind[block] = block + 1;
    for (i64 block = 0; block < count; ++block) {
        i64 start = p.first(block * BLOCK * n_actions);
        i64 end = p.first(std::min((block + 1) * BLOCK, n_states) * n_actions);
        if (start >= end) continue;
        auto [least, most] = extremes(p.indices.part(start, end));
        ahead[block] = std::max<i64>(ahead[block], most / BLOCK + 1);
        behind[least / BLOCK] = std::max(behind[least / BLOCK], block + 1);
    }
    for (i64 block = 1; block < count; ++block) behind[block] = std::max(behind[block], behind[block - 1]);
    return {std::move(ahead), std::move(behind)};
}

// Row i % 4 of `iterates` (4, S) becomes b + gamma P_pi applied i + 1 times to v (S,), for the last four i.
template <class I>
Done trailing_passes(Rows<I> p, In<i64> lengths, In<double> b, double gamma, In<double> v, i64 passes, In<i64> ahead,
                     In<i64> behind, Matrix<double> iterates) {
    i64 count = lengths.size;
    REQUIRE(b.size == p.count() && v.size == b.size && lengths.size == blocks_of(b.size));
    REQUIRE(ahead.size == lengths.size && behind.size == lengths.size && 0 <= passes && passes <= MOST_PASSES);
    REQUIRE(iterates.rows == KEPT && iterates.columns == b.size);
    // done[i + 1] blocks have had pass i; the blocks of v itself are all there
    Buffer<i64> done(passes + 1, 0);
    REQUIRE_MEMORY(done);
    done[0] = count;
    while (done[passes] < count) {
        bool progress = false;
        for (i64 pass = 0; pass < passes; ++pass) {
            i64 block = done[pass + 1], end = std::min(block + BLOCKS_PER_TURN, count);
            In<double> before = pass == 0 ? v : In<double>(iterates.row((pass - 1) % KEPT));
            for (; block < end && ahead[block] <= done[pass]; ++block) {
                if (pass >= KEPT && behind[block] > done[pass - KEPT + 2]) break;
                evaluate_block(p, lengths, b, gamma, before, block, iterates.row(pass % KEPT));
            }
            progress = progress || block > done[pass + 1];
            done[pass + 1] = block;
        }
        REQUIRE(progress);
    }
    return {};
}

inline const Kernel trailing_passes_kernels[] = {
    kernel<block_reach<i32>, block_reach<i64>>(
        "block_reach", "indptr indices n_states",
        "How far a pass must have come before the next one may do a block, and before it may be overwritten."),
    kernel<trailing_passes<i32>, trailing_passes<i64>>(
        "trailing_passes", "indptr indices data lengths b gamma v passes ahead behind iterates",
        "The last four iterates of v <- b + gamma P_pi v."),
};

inline const Constant trailing_passes_constants[] = {{"KEPT", KEPT}};

}  // namespace cautious
