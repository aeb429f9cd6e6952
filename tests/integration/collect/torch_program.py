"""A target for tests: operators, user scopes, threads, collectives of one process, launches from operators."""
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.profiler import record_function


def operators(count):
    x = torch.ones(8, 8)
    with record_function("test scope"):
        for _ in range(count):
            torch.mm(x, x)


def wait_until_observed():
    """The agent looks for torch every 10 ms; a test counts from here."""
    time.sleep(0.3)


wait_until_observed()
what = sys.argv[1]
if what == "operators":
    operators(50)
elif what == "threads":
    threads = [threading.Thread(target=operators, args=(50,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
elif what == "autograd":
    for _ in range(3):
        x = torch.ones(4, 4, requires_grad=True)
        torch.mm(x, x).sum().backward()
elif what == "gloo":
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=0, world_size=1)
    for _ in range(5):
        dist.all_reduce(torch.ones(256))
    dist.broadcast(torch.ones(8, dtype=torch.int64), src=0)
    dist.all_gather([torch.zeros(10)], torch.ones(10))
    scope = record_function("ends elsewhere")
    scope.__enter__()
    thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    dist.destroy_process_group()
elif what == "cuda":
    import ctypes

    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)

    library = torch.library.Library("test", "DEF")
    library.define("launch(Tensor x) -> Tensor")
    library.impl("launch", lambda x: (cuda.cuLaunchKernel(*[None] * 11), x.clone())[1], "CPU")
    wait_until_observed()
    for _ in range(5):
        torch.ops.test.launch(torch.ones(2))
print("done")
