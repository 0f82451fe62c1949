import torch


def reference(x):
    below = x - x.max(dim=1, keepdim=True).values
    sums = torch.log(torch.exp(below).sum(dim=1))
    return {"out": below - sums[:, None], "sums": sums}
