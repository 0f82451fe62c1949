import torch


def reference(x, scale):
    return {"out": torch.softmax(x * scale, dim=1)}
