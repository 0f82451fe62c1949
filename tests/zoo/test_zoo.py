"""The zoo itself: complete, each entry what it says to be."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from astra_tui.lab.audit.mutants import draw
from astra_tui.lab.audit.zoo import Zoo, ZooError, read_zoo

ZOO = Path(__file__).parent


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return read_zoo(ZOO)


def test_there_are_enough_of_each_kind(zoo: Zoo) -> None:
    kinds = Counter(entry.kind for entry in zoo.planted)
    assert len(zoo.planted) >= 120
    assert len(kinds) == 14
    assert min(kinds.values()) >= 8, kinds
    assert len(zoo.honest) >= 50
    for group in (zoo.planted, zoo.honest):
        assert len({entry.task for entry in group}) >= 4
        assert len({entry.text for entry in group}) == len(group)


def test_mutants_are_many_of_every_rule_and_differ(zoo: Zoo) -> None:
    drawn = zoo.drawn()
    assert len(drawn) == len({d.id for d in drawn}) >= 1000
    assert len({d.mutant.text for d in drawn}) == len(drawn)
    assert len({d.mutant.rule for d in drawn}) >= 20


def test_a_renamed_source_is_drawn_as_before(zoo: Zoo) -> None:
    sources = list(zoo.sources())
    assert set(zoo.draw.former_names) <= {name for name, _, _ in sources}
    renamed = [(f"{name}.renamed", task, text) for name, task, text in sources]
    former = {f"{name}.renamed": name for name, _, _ in sources}
    before, other = (draw(s, seed=1, count=50) for s in (sources, renamed))
    after = draw(renamed, seed=1, count=50, former_names=former)
    assert [d.mutant for d in after] == [d.mutant for d in before] != [d.mutant for d in other]


def test_a_ruling_is_for_honest_kernels_and_names_one_thing(zoo: Zoo, tmp_path: Path) -> None:
    ruled = [entry for entry in zoo.honest if entry.rulings]
    assert ruled
    assert all(ruling.reason for entry in ruled for ruling in entry.rulings)
    shutil.copytree(ZOO, tmp_path / "zoo")
    file = tmp_path / "zoo" / "honest" / "control.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("[[kernels.rulings]]\n", '[[kernels.rulings]]\nfinding = "hang"\n')
    )
    with pytest.raises(ZooError, match="either a finding or a condition"):
        read_zoo(tmp_path / "zoo")
