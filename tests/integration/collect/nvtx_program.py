"""A target for tests: the nvtx package of Python users, and the ways in which Python starts processes."""
import multiprocessing
import sys

import nvtx


@nvtx.annotate("decorated", color="red")
def decorated():
    pass


def work(name):
    with nvtx.annotate(f"work {name}"):
        pass


def annotate():
    with nvtx.annotate("with", color="blue"):
        with nvtx.annotate("in a domain", domain="test", category="a category"):
            decorated()
    nvtx.end_range(nvtx.start_range("started"))
    nvtx.mark("marked")


if __name__ == "__main__":
    if sys.argv[1] == "annotate":
        annotate()
    else:  # 'fork', 'spawn' or 'forkserver'
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            pool.map(work, ["a", "b", "c", "d"], chunksize=1)
            pool.close()
            pool.join()
