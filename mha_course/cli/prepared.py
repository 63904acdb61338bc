"""What every process that judges an answer needs, loaded once in the server that it is forked from.

PyTorch loads sympy at its first gradient, which takes longer than judging an answer.
"""

import gc

import torch.fx.experimental.symbolic_shapes

from mha_course.cli.answers import right_numbers
from mha_course.exercises.catalogue import EXERCISES

torch.set_num_threads(1)
for name in EXERCISES:
    right_numbers(name)
gc.freeze()  # nothing of it is looked through, and copied, in each process
