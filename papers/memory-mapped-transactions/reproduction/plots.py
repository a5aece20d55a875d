"""plots.py -- the plots that all papers share (papers/plots)."""
import os
import sys

PAPERS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(PAPERS, "plots"))
from svg import bars, lines, number, why_none  # noqa: E402,F401
