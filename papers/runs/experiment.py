"""experiment.py -- an experiment of a paper: which bench runs it, with what in which size, and how
long that takes.

Sizes: tiny proves that everything works (the test suite), quick is all of a paper in less than
four minutes, full is as large as the paper's. Seconds are estimates for the progress line, from
two cores of a 2020s server.
"""

from dataclasses import dataclass, field

SIZES = ("tiny", "quick", "full")


@dataclass
class Experiment:
    name: str
    answers: str  # what of the paper
    bench: str  # program, or "" for what reproduce counts itself
    # Files of the build folder that it runs, beside the bench: after a change it runs again.
    files: list = field(default_factory=list)
    tiny: list = field(default_factory=lambda: ["--tiny"])
    quick: list = field(default_factory=list)
    full: list = field(default_factory=list)
    seconds: dict = field(default_factory=dict)

    def arguments(self, size):
        return getattr(self, size)
