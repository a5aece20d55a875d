"""slowdown.py -- tests/support/slowdown.h for scripts: how long things may take here. A deadline
only ends what hangs; no test passes or fails by being fast.
"""

import os
import threading
import time


def slowdown():
    """TMH_TEST_SLOWDOWN, which ./check sets to what it has measured; 1 without it."""
    return int(os.environ.get("TMH_TEST_SLOWDOWN") or 1)


# What takes this long instead of a second or a few hangs.
HANG_S = 120 * slowdown()


class Lateness:
    """By how much a thread of this process is late at most, in a `with`: what a thread of the same
    priority waits for a processor here and now. A promise of a time is judged beside it."""

    _PERIOD_S = 0.001

    def __enter__(self):
        self.most_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _measure(self):
        while not self._over.is_set():
            begin = time.monotonic()
            time.sleep(self._PERIOD_S)
            self.most_s = max(self.most_s, time.monotonic() - begin - self._PERIOD_S)
