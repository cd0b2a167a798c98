"""Totals until the end by definition: every deterministic policy, in exact arithmetic."""

from fractions import Fraction
from itertools import product

import numpy as np

import cautious as ca

SHARES = [(1,), (Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 4), Fraction(3, 4))]


class TinyModel:
    """Rows of (next state, chance) for each allowed pair, rewards, and a start; the last state is absorbing."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.n, self.n_actions = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        # few states have many zero rewards, so that components of both kinds appear
        choices = [[0, 0, -1, -2], [-1, -3, 0], [1, -2, 0, 0, -3], [-1, -2], [0]][int(rng.integers(5))]
        self.rows, self.rewards = {}, {}
        for s in range(self.n):
            for a in range(self.n_actions):
                if a > 0 and rng.random() < 0.25:
                    continue
                shares = SHARES[int(rng.integers(len(SHARES)))]
                to = rng.choice(self.n, size=min(len(shares), self.n), replace=False)
                shares = shares if len(shares) == len(to) else (1,)
                last = s == self.n - 1
                self.rows[s, a] = [(s, 1)] if last else [(int(j), share) for j, share in zip(to, shares, strict=False)]
                self.rewards[s, a] = 0 if last else int(rng.choice(choices))
        self.start = {0: Fraction(1, 2), 1: Fraction(1, 2)} if rng.random() < 0.5 else {0: Fraction(1)}

    def mdp(self):
        shape = (self.n, self.n_actions)
        transitions, rewards, allowed = np.zeros((*shape, self.n)), np.zeros(shape), np.zeros(shape, bool)
        for (s, a), row in self.rows.items():
            allowed[s, a], rewards[s, a] = True, self.rewards[s, a]
            for j, share in row:
                transitions[s, a, j] += float(share)
        start = [float(self.start.get(s, 0)) for s in range(self.n)]
        names = [f"place {s}" for s in range(self.n)]
        return ca.MDP(transitions, rewards, 1.0, start, allowed=allowed, state_names=names)

    def reached(self, start, pairs):
        seen, left = set(start), list(start)
        while left:
            s = left.pop()
            for (state, _), row in pairs.items():
                new = {j for j, _ in row} - seen if state == s else set()
                seen |= new
                left += new
        return seen

    def ended(self):
        """States from which nothing is paid, that all lead to each other and cannot be left."""
        reach = {s: self.reached([s], self.rows) for s in range(self.n)}
        mutual = {s: all(s in reach[j] for j in reach[s]) for s in reach}
        pays = {s: any(r != 0 for (state, _), r in self.rewards.items() if state in reach[s]) for s in reach}
        return {s for s in reach if mutual[s] and not pays[s]}

    def policies(self):
        own = [[a for a in range(self.n_actions) if (s, a) in self.rows] for s in range(self.n)]
        for actions in product(*own):
            yield {(s, a): self.rows[s, a] for s, a in enumerate(actions)}

    def ends_from(self, policy, ended):
        """States from which a policy ends with certainty."""
        reach = {s: self.reached([s], policy) for s in range(self.n)}
        return {s for s in reach if all(reach[j] & ended for j in reach[s])}

    def total(self, policy, ended, reward=None):
        """What a policy that ends earns, or None if it may not end."""
        reward = self.rewards if reward is None else reward
        if not set(self.start) <= self.ends_from(policy, ended):
            return None
        states = sorted(self.reached(self.start, policy) - ended)
        place = {s: k for k, s in enumerate(states)}
        matrix = [[Fraction(int(i == j)) for j in range(len(states))] for i in range(len(states))]
        right = []
        for (s, _), row in policy.items():
            if s not in place:
                continue
            for j, share in row:
                if j in place:
                    matrix[place[s]][place[j]] -= share
        for s in states:
            (a,) = (a for state, a in policy if state == s)
            right.append(Fraction(reward[s, a]))
        values = solved(matrix, right)
        return sum((self.start[s] * values[place[s]] for s in self.start if s in place), Fraction(0))

    def endless(self, ended):
        """Whether some policy that need not end gains, or pays back what it costs, for ever."""
        possible = set().union(*(self.ends_from(policy, ended) for policy in self.policies()))
        while True:
            kept = {
                pair: row for pair, row in self.rows.items() if pair[0] in possible and {j for j, _ in row} <= possible
            }
            left = {s for s in possible if s in ended or self.reached([s], kept) & ended}
            if left == possible:
                break
            possible = left
        near = self.reached(set(self.start) & possible, kept)
        for policy in self.policies():
            if not all(pair in kept for pair in policy if pair[0] in near - ended):
                # states outside do not matter, and these pairs may not be used
                policy = {pair: row for pair, row in policy.items() if pair in kept}
            for s in near - ended:
                group = self.reached([s], policy)
                if group & ended or not all(s in self.reached([j], policy) for j in group):
                    continue
                if not all(any(pair[0] == j for pair in policy) for j in group):
                    continue
                gain = self.gain(policy, sorted(group))
                pays = any(self.rewards[pair] != 0 for pair in policy if pair[0] in group)
                if gain > 0 or (gain == 0 and pays):
                    return True
        return False

    def gain(self, policy, group):
        """The sign of the mean reward of a recurrent class: what is earned between two visits of its first state."""
        first, rest = group[0], group[1:]
        place = {s: k for k, s in enumerate(rest)}
        own = {s: (a, row) for (s, a), row in policy.items()}
        matrix = [[Fraction(int(i == j)) for j in range(len(rest))] for i in range(len(rest))]
        for s in rest:
            for j, share in own[s][1]:
                if j in place:
                    matrix[place[s]][place[j]] -= share
        values = solved(matrix, [Fraction(self.rewards[s, own[s][0]]) for s in rest])
        a, row = own[first]
        return self.rewards[first, a] + sum(share * values[place[j]] for j, share in row if j in place)


def solved(matrix, right):
    """Gauss's algorithm with fractions."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    n = len(rows)
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]
