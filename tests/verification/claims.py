"""Claims of solved problems, as a file holds them, and mutations of them; used by several tests."""

import dataclasses

import numpy as np

from cautious.errors import CautiousError
from cautious.verification.claim import read_claim
from cautious.verification.exact import working_precision
from cautious.verification.verify import verify_claim

SHIFTED = ("objective", "upper_bound", "gap")


def as_bound(case, problem):
    """A case whose priors are the doubles that the problem holds: those given are divided by their rounded sum."""
    terms = []
    for (weight, term), (_, bound) in zip(case.terms, problem.terms, strict=True):
        data = {**term.data, "prior": bound.prior} if "prior" in term.data else term.data
        terms.append((weight, dataclasses.replace(term, data=data)))
    return dataclasses.replace(case, terms=tuple(terms))


def stored(solution):
    """Header and arrays that can be changed."""
    header, arrays = solution.to_storage(witness=True)
    return {**header, "certificate": dict(header["certificate"])}, {k: np.array(v) for k, v in arrays.items()}


def verified(header, arrays):
    with working_precision():
        return verify_claim(read_claim("test", header, arrays))


def mutate(rng, header, arrays):
    """Change one or two things that a mistaken or hostile author could change, never the problem itself."""
    for _ in range(int(rng.integers(1, 3))):
        rng.choice([_numbers, _policy, _witness, _boxes, _tree, _status], p=[0.35, 0.2, 0.25, 0.1, 0.05, 0.05])(
            rng, header, arrays
        )


def _size(rng):
    return float(10.0 ** rng.uniform(-17, 1))


def _numbers(rng, header, arrays):
    scale = max(1.0, abs(header["objective"]))
    for name in rng.choice(SHIFTED, size=int(rng.integers(1, 3)), replace=False):
        header[name] += float(rng.normal() * _size(rng) * scale)
    if rng.random() < 0.7:
        header["gap"] = header["upper_bound"] - header["objective"]
    if rng.random() < 0.2:
        header["certificate"]["objective_error"] = _size(rng)


def _policy(rng, header, arrays):
    policy, allowed = arrays["policy"], arrays["model.allowed"]
    other = rng.exponential(size=policy.shape) * allowed
    states = rng.random(policy.shape[:-1]) < rng.choice([0.3, 1.0])
    share = min(1.0, _size(rng))
    mixed = (1 - share) * policy + share * other / other.sum(axis=-1, keepdims=True)
    arrays["policy"] = np.where(states[..., None], mixed / mixed.sum(axis=-1, keepdims=True), policy)


def _witness(rng, header, arrays):
    names = [name for name in arrays if name.startswith(("proof.boxes.", "proof.conflict."))]
    name = str(rng.choice(names)) if names else None
    if name is not None:
        noise, size = rng.normal(size=arrays[name].shape), _size(rng)
        arrays[name] = arrays[name] * (1 + size * noise) + (size * noise if rng.random() < 0.5 else 0.0)


def _boxes(rng, header, arrays):
    count = header["proof"]["boxes"]
    if count > 1:
        keep = rng.random(count) < 0.8
        keep[int(rng.integers(count))] = True
        header["proof"] = {**header["proof"], "boxes": int(keep.sum())}
        for name in [name for name in arrays if name.startswith("proof.boxes.")]:
            arrays[name] = arrays[name][keep]


def _tree(rng, header, arrays):
    for name in [name for name in arrays if name.endswith(".tree")]:
        tree = arrays[name]
        tree[int(rng.integers(tree.size))] = int(rng.integers(-1, tree.size))


def _status(rng, header, arrays):
    header["status"] = str(rng.choice(["SOLVED", "TIME_LIMIT", "INFEASIBLE"]))


def accepted(header, arrays):
    """Whether a claim is called proved; damaged ones are refused with a typed error."""
    try:
        return verified(header, arrays).proved
    except CautiousError:
        return False
