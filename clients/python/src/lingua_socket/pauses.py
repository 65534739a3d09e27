"""How long a node waits before it comes back, and how much it says on the way."""

from __future__ import annotations

import random
import threading
import time

FIRST = 0.1
LONGEST = 5.0


class Pauses:
    """Growing pauses in seconds, each from half to one and a half of its size, so that a fleet does not come
    back in one moment.
    """

    def __init__(self, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next(self) -> float:
        """The pause before the next try."""
        pause = self._next
        self._next = min(pause * 2, self._longest)
        return pause * random.uniform(0.5, 1.5)  # noqa: S311 - spreads, does not protect

    def reset(self) -> None:
        """It went well: start small again."""
        self._next = self._first


class Pace:
    """So many words a second and no more, from any thread. A short burst is let through."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = self._left = per_second / 2
        self._at = time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether one more may be said."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._most, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
