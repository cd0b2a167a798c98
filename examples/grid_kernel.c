/* A grid of SIDE x SIDE cells as the outcome function of cautious.from_kernel.
 *
 *     cc -O3 -shared -fPIC -DSIDE=4000 grid_kernel.c -o grid_kernel.so
 *
 * Moves: 0 right, 1 down, 2 left, 3 up. A move succeeds with probability 0.8, and slips to either side with 0.1; walls
 * hold it back. A step costs 1, in a wet cell 1.5; nothing is paid in the last cell, which is not left. */
#include <stdint.h>

#ifndef SIDE
#define SIDE 100
#endif

static const int ROWS[4] = {0, 1, 0, -1}, COLUMNS[4] = {1, 0, -1, 0};
static const double CHANCES[3] = {0.8, 0.1, 0.1};
/* the move itself, a slip to the right of it, a slip to the left */
static const int TURNS[3] = {0, 1, 3};

static int64_t inside(int64_t x) { return x < 0 ? 0 : x >= SIDE ? SIDE - 1 : x; }

/* About one cell in eight, in patches of 16 x 16. */
static int wet(int64_t row, int64_t column) { return ((row / 16) * 7 + (column / 16) * 13) % 8 == 0; }

int64_t outcomes(const int64_t *states, int64_t n, int64_t action, int64_t *successors, double *probabilities,
                 double *rewards) {
    const int64_t last = (int64_t)SIDE * SIDE - 1;
    for (int64_t i = 0; i < n; ++i) {
        int64_t row = states[i] / SIDE, column = states[i] % SIDE;
        double paid = states[i] == last ? 0.0 : wet(row, column) ? -1.5 : -1.0;
        for (int j = 0; j < 3; ++j) {
            int move = (action + TURNS[j]) % 4;
            int64_t next = inside(row + ROWS[move]) * SIDE + inside(column + COLUMNS[move]);
            successors[3 * i + j] = states[i] == last ? last : next;
            probabilities[3 * i + j] = CHANCES[j];
            rewards[3 * i + j] = paid;
        }
    }
    return n;
}
