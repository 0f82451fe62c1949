from __future__ import annotations

import numpy as np
import pytest

from astra_tui.gpu.timing.schedule import mirrored_orders, takes_single, takes_stale


@pytest.mark.parametrize("versions", [2, 3, 5])
def test_every_second_round_is_the_first_backwards(versions: int) -> None:
    orders = mirrored_orders(versions, 200, np.random.default_rng(1))
    assert (np.sort(orders, axis=1) == np.arange(versions)).all()
    assert (orders[1::2] == orders[::2, ::-1]).all()


def test_each_version_is_first_as_often() -> None:
    orders = mirrored_orders(3, 6000, np.random.default_rng(2))
    counts = np.bincount(orders[:, 0], minlength=3)
    assert counts == pytest.approx(2000, abs=160)


def test_an_odd_number_of_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="3 is odd"):
        mirrored_orders(2, 3, np.random.default_rng(0))


def test_every_fifth_round_takes_single_graphs() -> None:
    assert [i for i in range(12) if takes_single(i)] == [4, 9]
    assert [i for i in range(12) if takes_stale(i)] == [1, 6, 11]
