"""The one generator of inputs: any element of any tensor, alike in NumPy and on a GPU, bit by bit.

value = f(seed, set, place): a counter goes through SplitMix64 (Steele, Lea, Flood 2014), and what
comes out through whole numbers, a table, and single float64 operations that IEEE 754 rounds
exactly. No logarithm or cosine takes part, since libraries differ. So a judge knows any element
without the others and without believing the process in which candidates ran. The twin on the
device is `value` in gpu/tools.cu.

Normal numbers come from a table of quantiles, straight between them: out to 6.3 deviations, and
nowhere off by more than a thousandth of one. Of 16 elements in a row one is planted, if anything
is; so is the first of all. Whole numbers beyond 2**53 occur only as far as float64 has them.
"""

from __future__ import annotations

import hashlib
import math
import struct
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from astra_tui.gpu.messages import Fill
from astra_tui.model.bit_patterns import encode, largest_code, raw_dtype
from astra_tui.model.dtypes import DType

POOL = 8
"""Special values that can be planted at most."""

_KINDS = ("normal", "uniform", "integers", "constant", "arange", "offsets", "distribution", "lone")
_WHOLE_KINDS = ("integers", "arange", "offsets")
_PARTS = 2**52
"""What the numbers of a distribution are parts of."""
_FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
_INTEGERS = len(_FLOATS)
_NARROW = _INTEGERS + 4
_AT_ONCE = 1 << 15
"""Items that are computed at once: their numbers stay in a processor's cache."""
_LARGEST_WHOLE = float(np.nextafter(2.0**63, 0.0))
"""The device counts in 64 bits with a sign."""

# fmt: off
QUANTILES = (
    51921, 51772, 51638, 51517, 51406, 51304, 51209, 51121, 51038, 50887, 50751, 50628, 50515,
    50412, 50315, 50225, 50141, 49987, 49849, 49724, 49609, 49504, 49406, 49314, 49229, 49072,
    48931, 48804, 48687, 48580, 48480, 48387, 48300, 48140, 47997, 47867, 47748, 47639, 47537,
    47442, 47353, 47191, 47045, 46913, 46791, 46680, 46576, 46479, 46389, 46223, 46074, 45939,
    45816, 45702, 45596, 45497, 45405, 45236, 45084, 44946, 44820, 44704, 44596, 44495, 44401,
    44228, 44073, 43932, 43803, 43684, 43574, 43471, 43374, 43198, 43039, 42895, 42763, 42642,
    42529, 42423, 42325, 42144, 41981, 41834, 41699, 41575, 41459, 41351, 41250, 41065, 40899,
    40747, 40609, 40482, 40363, 40252, 40149, 39959, 39788, 39633, 39491, 39360, 39239, 39125,
    39019, 38823, 38648, 38489, 38343, 38208, 38083, 37967, 37857, 37656, 37476, 37312, 37162,
    37024, 36895, 36775, 36662, 36455, 36269, 36101, 35946, 35803, 35670, 35546, 35430, 35216,
    35025, 34850, 34690, 34543, 34406, 34277, 34157, 33937, 33738, 33558, 33392, 33239, 33097,
    32965, 32840, 32611, 32406, 32218, 32047, 31888, 31741, 31603, 31473, 31236, 31022, 30827,
    30648, 30483, 30330, 30186, 30051, 29803, 29580, 29377, 29191, 29018, 28858, 28707, 28566,
    28307, 28074, 27861, 27666, 27485, 27316, 27159, 27011, 26738, 26493, 26269, 26063, 25873,
    25695, 25529, 25373, 25085, 24826, 24589, 24371, 24170, 23981, 23805, 23639, 23334, 23058,
    22806, 22573, 22358, 22157, 21969, 21791, 21464, 21168, 20898, 20648, 20416, 20200, 19996,
    19805, 19451, 19130, 18836, 18565, 18312, 18076, 17854, 17645, 17257, 16904, 16581, 16281,
    16002, 15740, 15493, 15259, 14827, 14432, 14068, 13729, 13413, 13115, 12834, 12568, 12071,
    11615, 11192, 10797, 10426, 10075, 9742, 9424, 8827, 8274, 7756, 7268, 6804, 6360, 5935, 5525,
    4744, 4004, 3295, 2610, 1943, 1289, 642, 0
)
# fmt: on
"""|z| of a normal number times 2**13, where it is exceeded with probability 2**-32, then 9/8, 10/8,
... 15/8 of that, and so on for each of the 32 powers of two up to 1."""

_HERE = np.array(QUANTILES[:-1], np.int64) << 32
_TO_NEXT = -np.diff(np.array(QUANTILES, np.int64))
_FIRST_PLACE = (1023 + 53 - 32) << 3
"""The exponent and first three bits of the fraction of 2**(53 - 32) as a float64."""


def seed_of(seed: int | str, name: str) -> int:
    """The seed of one tensor, 64 bits; every set of it is drawn from a seed that follows."""
    digest = hashlib.sha256(f"{seed}|{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def draw(fill: Fill, seed: int, number: int, indices: Any) -> Any:
    """The items of set `number` at flat indices, as bit patterns of their type.

    `indices` are whole numbers of any shape, in any order, or a range, which is never held whole;
    the answer has their shape. An item is an element, or the elements that share a byte.
    """
    fill = _whole(fill)
    is_range = isinstance(indices, range)
    flat = indices if is_range else np.asarray(indices, np.uint64).reshape(-1)
    found = np.empty(len(flat), raw_dtype(DType(fill.dtype)))
    for begin in range(0, len(flat), _AT_ONCE):
        part: Any = flat[begin : begin + _AT_ONCE]
        places = np.arange(part.start, part.stop, part.step, dtype=np.uint64) if is_range else part
        found[begin : begin + len(part)] = _bits(fill, seed, number, places)
    return found if is_range else found.reshape(np.shape(indices))


def _bits(fill: Fill, seed: int, number: int, indices: Any) -> Any:
    dtype = DType(fill.dtype)
    if dtype.per_item > 1:
        firsts = indices[..., None] * np.uint64(dtype.per_item)
        indices = firsts + np.arange(dtype.per_item, dtype=np.uint64)
    with np.errstate(over="ignore", invalid="ignore"):
        values = _values(fill, _seed_of_set(seed, number), indices)
        # By way of float32, as the device does: each conversion rounds once.
        single = dtype.is_float and dtype is not DType.FLOAT64
        bits = encode(values.astype(np.float32) if single else values, dtype)
    return bits[..., 0] if dtype.per_item > 1 else bits


@lru_cache(maxsize=1024)
def _seed_of_set(seed: int, number: int) -> Any:
    return _mix(np.array([seed], np.uint64) + np.uint64(number))


def standard_normal(random: Any) -> Any:
    """Normal numbers from 64 random bits each, as float64.

    The first bit is the sign; the others are the probability with which |z| is exceeded. As a
    float64 that probability has its place in the table, and the way to the next one, in its bits.
    """
    # All of it has at most 63 bits: NumPy converts signed numbers faster.
    exceeded = np.maximum(random << np.uint64(1) >> np.uint64(11), np.uint64(2 ** (53 - 32)))
    bits = exceeded.view(np.int64).astype(np.float64).view(np.int64)
    place = (bits >> 49) - _FIRST_PLACE
    scaled = _HERE.take(place) - (bits >> 17 & 2**32 - 1) * _TO_NEXT.take(place)
    magnitude = scaled.astype(np.float64) * 2.0**-45
    return (magnitude.view(np.uint64) | (random & np.uint64(1 << 63))).view(np.float64)


def draw_parameters(fill: Fill, seed: int, elements: int, stride: int) -> bytes:
    """What `draw` of tools.cu takes after the address; `stride` is bytes from set to set."""
    fill = _whole(fill)
    pool = (*fill.planted, *[0.0] * POOL)[:POOL]
    return struct.pack(
        "<QQQiidddi4x8dQQ",
        seed,
        elements,
        stride,
        _KINDS.index(fill.kind),
        type_code(DType(fill.dtype)),
        fill.low,
        fill.high,
        fill.limit,
        min(len(fill.planted), POOL),
        *pool,
        fill.group,
        fill.apart,
    )


def _whole(fill: Fill) -> Fill:
    """The ends of a range of whole numbers rounded inwards, and within what the device counts."""
    if fill.kind not in _WHOLE_KINDS:
        return fill
    high = math.floor(min(fill.high, _LARGEST_WHOLE))
    low = min(math.ceil(fill.low), high)
    return msgspec.structs.replace(fill, low=float(low), high=float(high))


def type_code(dtype: DType) -> int:
    """The type as tools.cu takes it: integers of one size are written alike.

    A narrow float is told by its format, so that the device needs no table of them: bits, bits of
    exponent and mantissa, its largest code, whether infinity comes next, and whether it has NaN.
    """
    if dtype.is_narrow:
        code = largest_code(dtype) << 8 | dtype.has_infinity << 16 | dtype.has_nan << 17
        code |= dtype.mantissa_bits << 18 | dtype.exponent_bits << 22 | dtype.bits << 26
        return code | _NARROW
    if dtype in _FLOATS:
        return _FLOATS.index(dtype)
    return _INTEGERS + dtype.size.bit_length() - 1


def _values(fill: Fill, seed: Any, i: Any) -> Any:
    values = _unplanted(fill, seed, i)
    if fill.limit > 0 and fill.kind not in ("constant", "lone"):
        values = np.minimum(np.maximum(values, -fill.limit), fill.limit)
    planted = fill.planted[:POOL]
    if planted:
        block = i >> np.uint64(4)
        drawn = _mix(seed + (np.uint64(2) * block + np.uint64(1)))
        place = np.where(block == 0, np.uint64(0), drawn & np.uint64(15))
        which = ((drawn >> np.uint64(4)) % np.uint64(len(planted))).astype(np.int64)
        chosen = (i & np.uint64(15)) == place
        values = np.where(chosen, np.array(planted)[which], values)
    return values


def _unplanted(fill: Fill, seed: Any, i: Any) -> Any:
    match fill.kind:
        case "constant":
            return np.full(i.shape, fill.low)
        case "arange":
            return (i % np.uint64(int(fill.high) + 1)).astype(np.float64)
        case "integers" if fill.group:
            return _distinct(fill, seed, i)
        case "offsets":
            return _offsets(fill, seed, i)
        case "distribution":
            begin, end = _share(_key(fill, seed, i), i % np.uint64(fill.group), fill.group, _PARTS)
            return (end - begin).astype(np.float64) * (1.0 / _PARTS)
        case "lone":
            group = np.uint64(max(fill.group, 1))
            is_lone = i % group == _key(fill, seed, i) % group
            return np.where(is_lone, fill.high, fill.low)
    random = _mix(seed + np.uint64(2) * i)
    match fill.kind:
        case "normal":
            return standard_normal(random) * fill.high + fill.low
        case "uniform":
            unit = (random >> np.uint64(11)).astype(np.float64) * 2.0**-53
            return unit * (fill.high - fill.low) + fill.low
    span = np.uint64(int(fill.high) - int(fill.low) + 1)
    of_low = np.array([int(fill.low)]).astype(np.uint64)
    return (of_low + random % span).astype(np.int64).astype(np.float64)


def _distinct(fill: Fill, seed: Any, i: Any) -> Any:
    """Whole numbers of which no two in a group are alike.

    Each group is the beginning of a permutation of the range: a Feistel network of four rounds,
    which permutes the numbers of an even number of bits, is applied until one in the range is met.
    """
    place = i % np.uint64(fill.group)
    low, span = int(fill.low), int(fill.high) - int(fill.low) + 1
    key = _key(fill, seed, i)
    half = np.uint64(((span - 1).bit_length() + 1) // 2)
    found = _feistel(place % np.uint64(span), key, half)
    while (beyond := found >= np.uint64(span)).any():
        found = np.where(beyond, _feistel(found, key, half), found)
    return (np.array([low]).astype(np.uint64) + found).astype(np.int64).astype(np.float64)


def _offsets(fill: Fill, seed: Any, i: Any) -> Any:
    """Whole numbers that never fall: `low` first in each group, `high` last."""
    place, pieces = i % np.uint64(fill.group), max(fill.group - 1, 1)
    leaf = np.minimum(place, np.uint64(pieces - 1))
    total = int(fill.high) - int(fill.low) - (fill.group - 1) * fill.apart
    begin, end = _share(_key(fill, seed, i), leaf, pieces, total)
    found = np.where(place > leaf, end, begin) + place * np.uint64(fill.apart)
    return found.astype(np.float64) + fill.low


def _share(key: Any, leaf: Any, pieces: int, total: int) -> tuple[Any, Any]:
    """Where a piece of a whole number begins and ends that is cut into so many pieces at random.

    The middle border is drawn first, then those of both halves between their ends, and so on: each
    follows from the key, its place and the borders around it, the mean of two even draws.
    """
    first, last = np.zeros_like(leaf), np.full_like(leaf, pieces)
    begin, end = np.zeros_like(leaf), np.full_like(leaf, total)
    one, two = np.uint64(1), np.uint64(2)
    while (cut := last - first > one).any():
        middle = first + (last - first) // two
        ways = end - begin + one
        drawn = _mix(key + two * middle) % ways + _mix(key + two * middle + one) % ways
        border = begin + drawn // two
        below = leaf < middle
        last, end = np.where(cut & below, middle, last), np.where(cut & below, border, end)
        first, begin = np.where(cut & ~below, middle, first), np.where(cut & ~below, border, begin)
    return begin, end


def _key(fill: Fill, seed: Any, i: Any) -> Any:
    """What all elements of a group are drawn from."""
    return _mix(seed + np.uint64(2) * (i // np.uint64(fill.group)))


def _feistel(place: Any, key: Any, half: Any) -> Any:
    ways = (np.uint64(1) << half) - np.uint64(1)
    left, right = place >> half, place & ways
    for round_ in range(4):
        left, right = right, left ^ (_mix(key + (right << np.uint64(2)) + np.uint64(round_)) & ways)
    return left << half | right


def _mix(x: Any) -> Any:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
