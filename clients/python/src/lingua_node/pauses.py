"""How long a node waits before it comes back."""

from __future__ import annotations

import random

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
