"""Wrong relatives of every reference, by families.

A relative is the reference behind a wrapper that does one thing wrong.
"""

import itertools
from functools import partial

import torch

from mha_course.exercises.sandbox import as_list


def is_float(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def mapped(change, result):
    if isinstance(result, tuple | list):
        return tuple(mapped(change, x) for x in result)
    return change(result)


def on_floats(change):
    return lambda x: change(x) if is_float(x) else x


def replaced(arguments, place, value):
    return [*arguments[:place], value, *arguments[place + 1 :]]


class Relatives:
    """The relatives of one exercise; a class exercise is changed in its forward."""

    def __init__(self, exercise):
        self.exercise = exercise
        self.reference = exercise.reference
        self.is_class = isinstance(exercise.reference, type)
        self.arguments = []  # of each call of the first inputs
        for case in exercise.first_cases:
            seen = []
            watched = self.answer(
                lambda call, *given, seen=seen: seen.append(given) or call(*given)
            )
            self.results = as_list(exercise.run(watched, *case.arguments))
            self.arguments.append(list(seen[0]))
        self.has_floats = any(map(is_float, self.results))
        self.learns = "no gradient" not in exercise.allows and self.has_floats

    def answer(self, change):
        """Return the reference, called by ``change(call, *arguments)``."""
        reference = self.reference
        if not self.is_class:
            return lambda *arguments: change(reference, *arguments)

        class Relative(reference):
            def forward(self, *arguments):
                return change(super().forward, *arguments)

        return Relative

    def places(self, kind):
        """Return the places of arguments of a kind in the first call."""
        return [place for place, x in enumerate(max(self.arguments, key=len)) if kind(x)]

    def sizes(self):
        """Return each size of the tensors of the first call, and where it is."""
        standing = {}
        for place, x in enumerate(self.arguments[0]):
            for axis, size in enumerate(x.shape if isinstance(x, torch.Tensor) else ()):
                if size > 1:
                    standing.setdefault(size, []).append((place, axis))
        return standing

    def detached(self):
        """Cut the results, the inputs or one input off from the gradient."""
        if not self.learns:
            return
        yield "results", lambda call, *a: mapped(on_floats(torch.Tensor.detach), call(*a))
        yield "no_grad", lambda call, *a: torch.no_grad()(call)(*a)
        yield (
            "numpy",
            lambda call, *a: call(
                *(torch.from_numpy(x.detach().numpy()) if is_float(x) else x for x in a)
            ),
        )
        for place in self.places(is_float):
            yield f"data {place}", partial(self._with, place, lambda x: x.data)

    @staticmethod
    def _with(place, change, call, *arguments):
        if place >= len(arguments):
            return call(*arguments)
        return call(*replaced(arguments, place, change(arguments[place])))

    def masks(self):
        """Ignore one form of a mask, or read it by its first sentence."""
        for place in self.places(lambda x: isinstance(x, torch.Tensor) and x.dtype == torch.bool):
            forms = {(x.dim(), x.size(0) > 1) for x in self._seen(place) if x is not None}
            for form in sorted(forms):

                def ignore(m, form=form):
                    known = m is None or (m.dim(), m.size(0) > 1) != form
                    return m if known else torch.ones_like(m)

                yield f"{form[0]} axes, {form[1]}", partial(self._with, place, ignore)

    def _seen(self, place):
        """Return what is at one place in each of the checker's inputs."""
        for case in self.exercise.cases:
            arguments = case.arguments
            place = 1 if self.is_class else place
            x = arguments[place] if place < len(arguments) else None
            yield x if isinstance(x, torch.Tensor) else None

    def sizes_written(self):
        """Write a size, an offset, a base or a count of the first inputs as a number."""
        for size, at in self.sizes().items():
            yield f"at most {size}", partial(self._cropped, size, at)
            yield f"only {size}", partial(self._off_at, at, lambda n, size=size: n != size)
        for place in self.places(lambda x: type(x) in (int, float)):
            value = self.arguments[0][place : place + 1] or [0.3]
            yield f"argument {place}", partial(self._with, place, lambda x, v=value: v[0])

    @staticmethod
    def _cropped(size, at, call, *arguments):
        cropped = list(arguments)
        for place, axis in at:
            cropped[place] = cropped[place].narrow(axis, 0, min(size, cropped[place].size(axis)))
        return call(*cropped)

    def _off_at(self, at, wrong, call, *arguments):
        """Be off where a size is wrong."""
        result = call(*arguments)
        place, axis = at[0]
        return mapped(off, result) if wrong(arguments[place].size(axis)) else result

    def ignored(self):
        """Ignore an argument: use a different one instead."""
        for place, x in enumerate(self.arguments[0]):
            if isinstance(x, torch.Tensor):
                yield f"zeros {place}", partial(self._with, place, torch.zeros_like)
        for place in self.places(lambda x: isinstance(x, bool | str)):
            for value in sorted({given[place] for given in self.arguments if place < len(given)}):
                yield f"{value} {place}", partial(self._with, place, lambda _, v=value: v)

    def narrower(self):
        """Compute in half precision, or return it; float32 is precise enough."""
        if not self.has_floats:
            return
        for dtype in (torch.float16, torch.bfloat16):

            def inside(call, *arguments, dtype=dtype):
                if not any(map(is_float, arguments)):
                    return call(*arguments)
                wide = next(x.dtype for x in arguments if is_float(x))
                return call(*[x.to(dtype).to(wide) if is_float(x) else x for x in arguments])

            yield f"inside {dtype}", inside
            yield (
                f"returned {dtype}",
                lambda call, *a, d=dtype: mapped(on_floats(lambda x: x.to(d)), call(*a)),
            )

    def singles(self):
        """Be wrong for sizes of 1, for odd or even ones, or where two sizes differ."""
        sizes = self.sizes()
        for size, at in sizes.items():
            yield f"one in place of {size}", partial(self._off_at, at, lambda n: n == 1)
            rest = 1 - size % 2
            yield (
                f"parity {rest} of {size}",
                partial(self._off_at, at, lambda n, r=rest: n % 2 == r),
            )
        for (one, at), (other, there) in itertools.combinations(sizes.items(), 2):

            def compared(call, *arguments, at=at, there=there, more=one > other):
                sizes = [arguments[p].size(axis) for p, axis in (at[0], there[0])]
                wrong = sizes[0] <= sizes[1] if more else sizes[0] >= sizes[1]
                result = call(*arguments)
                return mapped(off, result) if wrong else result

            if {one, other} == {5, 7}:
                yield f"{one} and {other} the other way round", compared

    def parameters(self):
        """Leave a parameter of a module out of learning."""
        if not self.is_class:
            return
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield f"frozen {name}", frozen(self.reference, name)


FAMILIES = ("detached", "parameters", "masks", "sizes_written", "ignored", "narrower", "singles")


def off(x):
    if isinstance(x, bool) or (torch.is_tensor(x) and x.dtype == torch.bool):
        return ~x if torch.is_tensor(x) else not x
    return x + 1


def frozen(reference, name):
    class Frozen(reference):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            getattr(self, name).requires_grad_(False)

    return Frozen


def all_relatives(exercise, families=FAMILIES):
    """Yield (family, label, answer)."""
    relatives = Relatives(exercise)
    for family in families:
        for label, change in getattr(relatives, family)():
            yield family, label, change if family == "parameters" else relatives.answer(change)
