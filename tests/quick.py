"""silu_and_mul with fewer sizes and one element type, for whatever is not about checking."""

from __future__ import annotations

from pathlib import Path

KERNEL = Path(__file__).resolve().parents[1] / "kernels" / "silu_and_mul"

_SMALLER = {
    'accepts = ["d >= 1"]': 'accepts = ["d >= 1", "d <= 5120", "tokens <= 1024"]',
    'dtypes = ["float16", "bfloat16"]': 'dtypes = ["float16"]',
    "sizes = [0, 1, 2, 7, 19, 83, 613]": "sizes = [0, 1, 83]",
    "sizes = [1, 2, 3, 7, 8, 16, 31, 64, 111, 500, 769, 1031, 4096, 5125, 11008]": (
        "sizes = [1, 8, 111, 1031]"
    ),
    "[[workloads]]\ndims = { tokens = 64, d = 8192 }\n": "",
    "[[workloads]]\ndims = { tokens = 256, d = 11008 }\n": "",
    "[[workloads]]\ndims = { tokens = 16, d = 12288 }\n": "",
    "dims = { tokens = 1024, d = 13824 }": "dims = { tokens = 256, d = 4096 }",
    "[[workloads]]\ndims = { tokens = 4096, d = 14336 }\n": "",
}

_SMALL = {
    'accepts = ["d >= 1", "d <= 5120", "tokens <= 1024"]': (
        'accepts = ["d >= 1", "d <= 256", "tokens <= 64"]'
    ),
    "sizes = [0, 1, 83]": "sizes = [0, 1, 19]",
    "sizes = [1, 8, 111, 1031]": "sizes = [1, 8, 111]",
    "typical = 512": "typical = 128",
}
SMALL_WORKLOAD = "[[workloads]]\ndims = { tokens = 8, d = 128 }\n"


def write_quick_task(kernels: Path, workloads: str = "") -> Path:
    """Writes the task into a folder of kernels, which need not be there, and returns its own.

    Where `workloads` says others in TOML, they are small: it takes nothing that is much larger,
    and has no cases of its own.
    """
    folder = kernels / KERNEL.name
    folder.mkdir(parents=True)
    for file in KERNEL.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    text = (folder / "task.toml").read_text(encoding="utf-8")
    for whole, part in {**_SMALLER, **(_SMALL if workloads else {})}.items():
        assert whole in text
        text = text.replace(whole, part)
    if workloads:
        text = text.partition("[[workloads]]")[0] + workloads
    (folder / "task.toml").write_text(text, encoding="utf-8")
    return folder
