"""Kernels run without the GIL: several threads must find what one finds. `make sanitize` looks for races here."""

import random
from concurrent.futures import ThreadPoolExecutor

import kernel_fuzzer
import numpy as np
import pytest

KERNELS = kernel_fuzzer.kernels()
THREADS = 4
ANSWERS = 5


def answered_plans(kernel):
    """Random arguments that the kernel accepts."""
    planner = kernel_fuzzer.Planner(kernel, random.Random(kernel.name))
    for _ in range(200):
        plan = planner.plan()
        error = kernel_fuzzer.error_of(kernel, plan.arguments(kernel))
        planner.learn(plan, error)
        if error is None:
            yield plan


def outcome(kernel, arguments):
    """What a call returns, and what it leaves in its arguments."""
    return [kernel.function(*arguments), *arguments]


@pytest.mark.parametrize("name", KERNELS)
def test_threads_do_not_disturb_each_other(name):
    kernel = KERNELS[name]
    plans = [plan for plan, _ in zip(answered_plans(kernel), range(ANSWERS), strict=False)]
    shared = [plan.arguments(kernel) for plan in plans]

    def work(_):
        found = []
        for plan, arrays in zip(plans, shared, strict=True):
            own = plan.arguments(kernel)
            found.append(
                outcome(kernel, [o if s.writable else a for s, o, a in zip(kernel.slots, own, arrays, strict=True)])
            )
        return found

    expected = work(0)
    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(work, range(THREADS)):
            np.testing.assert_equal(found, expected)
