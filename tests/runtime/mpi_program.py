"""Learns on an MPIPoolExecutor and in this process, and says whether the bytes are the same; see test_mpi.py."""

from mpi4py.futures import MPIPoolExecutor
from test_dask_cluster import learn

from cautious.runtime.executors import worker_count

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        pool.bootup()
        found, alone = learn(pool), learn()
        print(worker_count(pool), found.policy.tobytes() == alone.policy.tobytes(), found.objective == alone.objective)
