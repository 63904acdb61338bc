"""Random programs of views: names do not depend on sizes, and a number that changes is found along
its axis.
"""

import random

import pytest
import torch

from mha_course.tracing import trace

NAMES = "BHSD"
SIZES = {
    "different": (6, 3, 5, 7),
    "alike": (4, 4, 4, 4),
    "in pairs": (4, 6, 6, 4),
    "swapped": (6, 4, 4, 6),
}


def program(seed):
    """Return a function of (B, H, S, D) that merges, splits, moves, cuts and joins axes, whatever
    their sizes are.
    """
    choose = random.Random(seed)
    plan = [(choose.choice(["move", "merge", "split", "halve", "new", "pile"]), choose.random(),
        choose.random())
            for _ in range(8)]  # fmt: skip

    def run(x):
        lengths = [[size] for size in x.shape]  # what each axis was merged from
        for kind, one, other in plan:
            at, to = int(one * x.dim()), int(other * x.dim())
            if kind == "move":
                x = x.movedim(at, to)
                lengths.insert(to, lengths.pop(at))
            elif kind == "merge" and at + 1 < x.dim():
                x = x.flatten(at, at + 1)
                lengths[at : at + 2] = [lengths[at] + lengths[at + 1]]
            elif kind == "split" and len(lengths[at]) > 1:
                parts = lengths[at]
                x = x.reshape(*x.shape[:at], *parts, *x.shape[at + 1 :])
                lengths[at : at + 1] = [[part] for part in parts]
            elif kind == "halve":
                x = torch.cat(x.split([1, x.size(at) - 1], dim=at), dim=at)
            elif kind == "new" and x.dim() < 6:
                x = x.unsqueeze(at)
                lengths.insert(at, [1])
            elif kind == "pile":
                x = torch.stack(x.unbind(at), dim=at)
        return x

    return run


@pytest.mark.parametrize("seed", range(40))
def test_names_do_not_depend_on_sizes_and_what_changes_lies_along_the_axis_of_its_name(seed):
    run, results = program(seed), {}
    x = torch.randn(SIZES["different"])
    for name, shape in SIZES.items():
        given = x if name == "different" else torch.randn(shape)
        results[name] = trace(run, given, axes="B H S D", sizes={"C": shape[1] * shape[3]})
    (axes,) = {found.steps[-1].axes for found in results.values()}
    for dim, name in enumerate(NAMES):
        changed = x.clone()
        changed.select(dim, 1).add_(1)
        moved = (run(changed) != results["different"].result).nonzero()
        for position, label in enumerate(axes):
            if label == name:
                assert set(moved[:, position].tolist()) == {1}
