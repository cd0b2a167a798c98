// Numbers out of lines of text: some whole numbers, one real number, perhaps a word.
//
// A decimal m * 10^e with m <= 2^53 and |e| <= 22 is one multiplication or division of exact numbers, hence correctly
// rounded. Other real numbers are copied to `slow` and left to Python: what is read is always the nearest double. The
// bytes may be anything.
//
// Legend: `text` (n,) bytes, whole lines; `whole` (k, lines); `real` (lines,); `word` (lines,) or (0,); `slow` (lines,
// NUMBER_WIDTH) bytes, filled up with zeros, of the entries `slow_line`. Word i is letters[starts[i]:starts[i + 1]];
// starts[MOST_WORDS + 1] counts them.
#pragma once
#include "binding.hpp"

namespace cautious::text {

inline constexpr i64 NUMBER_WIDTH = 64;
// the most different words that are told apart, and what stands for further ones and for none
inline constexpr i64 MOST_WORDS = 4096;
inline constexpr i32 NO_WORD = -1, ONE_WORD_TOO_MANY = -2;
inline constexpr i64 LARGEST_EXACT = i64(1) << 53, LARGEST_WHOLE = std::numeric_limits<i32>::max();
inline constexpr double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline bool is_blank(u8 c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool is_digit(u8 c) { return c >= '0' && c <= '9'; }
inline bool is_sign(u8 c) { return c == '-' || c == '+'; }
inline bool is_of_number(u8 c) { return is_digit(c) || is_sign(c) || c == '.' || c == 'e' || c == 'E' || c == '/'; }

// The whole number of a token, or -1.
inline i64 read_whole(In<u8> token) {
    if (token.size > 10) return -1;
    i64 value = 0;
    for (u8 c : token) {
        if (!is_digit(c)) return -1;
        value = value * 10 + (c - '0');
    }
    return value <= LARGEST_WHOLE ? value : -1;
}

enum class Found { number, slow, nothing };

// The real number of a token: found at once, or to be read slowly, or not one.
inline Found read_real(In<u8> token, double& out) {
    if (token.size > NUMBER_WIDTH) return Found::nothing;
    i64 i = is_sign(token[0]), digits = 0, shift = 0, mantissa = 0;
    bool seen_dot = false, exact = true;
    for (; i < token.size && (is_digit(token[i]) || (token[i] == '.' && !seen_dot)); ++i) {
        if (token[i] == '.') {
            seen_dot = true;
            continue;
        }
        ++digits;
        exact = mantissa <= LARGEST_EXACT;
        if (!exact) break;
        mantissa = mantissa * 10 + (token[i] - '0');
        shift -= seen_dot;
    }
    exact = exact && digits > 0;
    if (exact && i < token.size && (token[i] == 'e' || token[i] == 'E')) {
        i64 power = 0, first = ++i;
        bool down = i < token.size && token[i] == '-';
        if (i < token.size && is_sign(token[i])) first = ++i;
        for (; i < token.size && is_digit(token[i]) && i < first + 4; ++i) power = power * 10 + (token[i] - '0');
        if (i == first) return Found::nothing;
        shift += down ? -power : power;
    }
    if (exact && i == token.size && mantissa <= LARGEST_EXACT && -22 <= shift && shift <= 22) {
        double value = static_cast<double>(mantissa);
        value = shift >= 0 ? value * TENS[shift] : value / TENS[-shift];
        out = token[0] == '-' ? -value : value;
        return Found::number;
    }
    return std::all_of(token.begin(), token.end(), is_of_number) ? Found::slow : Found::nothing;
}

// The words met so far, in the order of appearance, and a table that finds them.
struct Words {
    Out<i64> starts;
    Out<u8> letters;
    Buffer<i64> table;

    Words(Out<i64> starts, Out<u8> letters) : starts(starts), letters(letters), table(4 * MOST_WORDS, 0) {}

    i64& count() const { return starts[MOST_WORDS + 1]; }
    In<u8> word(i64 i) const { return letters.part(starts[i], starts[i + 1]); }
    bool are_whole() const {
        if (starts.size != MOST_WORDS + 2 || count() < 0 || count() > MOST_WORDS || starts[0] != 0) return false;
        for (i64 i = 0; i < count(); ++i)
            if (starts[i + 1] < starts[i]) return false;
        return starts[count()] <= letters.size;
    }
    // Where the table has a word, or has room for it; it is never full.
    i64 slot(In<u8> token) const {
        u64 key = 1469598103934665603u;
        for (u8 c : token) key = (key ^ c) * 1099511628211u;
        i64 at = static_cast<i64>(key % static_cast<u64>(table.size));
        while (table[at] != 0) {
            In<u8> known = word(table[at] - 1);
            if (known.size == token.size && std::memcmp(known.data, token.data, token.size) == 0) break;
            at = at + 1 < table.size ? at + 1 : 0;
        }
        return at;
    }
    void know_all() const {
        for (i64 i = 0; i < count(); ++i) table[slot(word(i))] = i + 1;
    }
    // The number of a word.
    i32 number(In<u8> token) const {
        i64 at = slot(token), known = count();
        if (table[at] != 0) return static_cast<i32>(table[at] - 1);
        if (known == MOST_WORDS || token.size > letters.size - starts[known]) return ONE_WORD_TOO_MANY;
        std::copy(token.begin(), token.end(), letters.data + starts[known]);
        starts[known + 1] = starts[known] + token.size;
        table[at] = count() = known + 1;
        return static_cast<i32>(known);
    }
};

struct Reader {
    In<u8> text;
    Matrix<i32> whole;
    Out<double> real;
    Out<i32> word;
    Matrix<u8> slow;
    Out<i64> slow_line;
    const Words& words;
    i64 used, n_slow = 0;

    // Put a token where it belongs in the entry `used`; false if it does not fit. A slow number is only counted when
    // its line is whole.
    bool put(i64 place, In<u8> token, bool& is_slow) {
        if (used == real.size || place > whole.rows + (word.size > 0)) return false;
        if (place < whole.rows) {
            i64 number = read_whole(token);
            whole(place, used) = static_cast<i32>(number);
            return number >= 0;
        }
        if (place > whole.rows) {
            word[used] = words.number(token);
            return true;
        }
        if (word.size > 0) word[used] = NO_WORD;
        real[used] = 0.0;
        Found found = read_real(token, real[used]);
        is_slow = found == Found::slow;
        if (!is_slow) return found == Found::number;
        if (n_slow == slow.rows) return false;
        slow_line[n_slow] = used;
        slow.row(n_slow).fill(0);
        std::copy(token.begin(), token.end(), slow.row(n_slow).data);
        return true;
    }

    // Read the line that begins at `at`, which moves to its end; false if it does not fit.
    bool read_line(i64& at) {
        const u8* bytes = text.data;
        i64 place = 0, size = text.size;
        bool is_slow = false;
        for (;; ++place) {
            while (at < size && is_blank(bytes[at])) ++at;
            if (at == size || bytes[at] == '\n') break;
            if (place == 0 && bytes[at] == '#') {
                while (at < size && bytes[at] != '\n') ++at;
                return true;
            }
            i64 first = at;
            while (at < size && (bytes[at] > ' ' || (bytes[at] != '\n' && !is_blank(bytes[at])))) ++at;
            if (!put(place, text.part(first, at), is_slow)) return false;
        }
        if (place == 0) return true;
        n_slow += is_slow;
        used += place > whole.rows;
        return place > whole.rows;
    }
};

// Read lines into the columns from place `used` on; blank lines and those that begin with # are left out. A line is
// one whole number per row of `whole`, a real number, and perhaps a word (if `word` has room for any). Returns the
// places used then, the slow numbers, the lines passed, and how many bytes were read. A line that does not fit ends
// the reading at its beginning.
inline std::tuple<i64, i64, i64, i64> parse_lines(In<u8> text, Matrix<i32> whole, Out<double> real, Out<i32> word,
                                                  i64 used, Matrix<u8> slow, Out<i64> slow_line, Out<i64> starts,
                                                  Out<u8> letters) {
    REQUIRE(whole.columns == real.size && (word.size == 0 || word.size == real.size));
    REQUIRE(0 <= used && used <= real.size);
    REQUIRE(slow.columns == NUMBER_WIDTH && slow_line.size >= slow.rows);
    Words words(starts, letters);
    REQUIRE_MEMORY(words.table);
    REQUIRE(words.are_whole());
    words.know_all();
    Reader reader{text, whole, real, word, slow, slow_line, words, used};
    i64 at = 0, lines = 0;
    for (; at < text.size; ++at, ++lines) {
        i64 begin = at;
        if (!reader.read_line(at)) return {reader.used, reader.n_slow, lines, begin};
    }
    return {reader.used, reader.n_slow, lines, text.size};
}

inline const Kernel kernels[] = {
    kernel<parse_lines>("parse_lines", "text whole real word used slow slow_line starts letters",
                        "Read lines into columns; places used, slow numbers, lines and bytes read."),
};

inline constexpr Constant constants[] = {{"NUMBER_WIDTH", NUMBER_WIDTH}, {"MOST_WORDS", MOST_WORDS}};

}  // namespace cautious::text
