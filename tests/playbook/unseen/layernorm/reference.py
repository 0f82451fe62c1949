import torch


def reference(x, gamma, beta, eps):
    mean = x.mean(dim=1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=1, keepdim=True)
    return {"out": (x - mean) / torch.sqrt(variance + eps) * gamma + beta}
