"""Multi-head attention, step by step: the package behind the notebooks.

Importing it loads nothing else, so that ``python3 -m mha_course`` runs before torch is installed.
"""

__version__ = "1.0.0"
