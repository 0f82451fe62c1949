import torch


def reference(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x**3)
    return {"out": 0.5 * x * (1.0 + torch.tanh(inner))}
