"""A fixed amount of work of torch on a CUDA device. With a FILE it is watched by torch's own profiler, which writes there."""
import sys

import torch


def work():
    torch.manual_seed(0)
    x = torch.ones(256, 256).cuda()
    for _ in range(100):
        x = torch.mm(x, x).clamp(0, 1)
    torch.cuda.synchronize()
    return x.cpu().sum().item()


if len(sys.argv) > 1:
    with torch.profiler.profile() as profile:
        work()
    profile.export_chrome_trace(sys.argv[1])
else:
    work()
