import torch


def reference(x, cosine, sine, half):
    first, second = x[..., :half], x[..., half:]
    c, s = cosine[:, None, :], sine[:, None, :]
    return {"out": torch.cat([first * c - second * s, second * c + first * s], dim=-1)}
