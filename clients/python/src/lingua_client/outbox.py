"""Speech on its way: kept until its ending is heard, so that it can be said again wherever the session goes on."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass
class Piece:
    """A part of what somebody says."""

    seq: int
    audio: bytes
    is_final: bool
    turn: int


class Outbox:
    """The pieces in their order. A piece is sent, then acknowledged, then ended; only then is it forgotten.

    No clock, no socket: a session asks what to send next and tells what it heard.
    """

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._sent = 0
        self._acked = -1
        self._next_seq = 0
        self.bytes = 0
        """Of speech that is kept."""

    def push(self, audio: bytes, *, is_final: bool, turn: int) -> None:
        """Takes a piece."""
        self._pieces.append(Piece(self._next_seq, audio, is_final, turn))
        self._next_seq += 1
        self.bytes += len(audio)

    def next(self) -> Piece | None:
        """The next piece that was not sent on this connection; it counts as sent."""
        if self._sent >= len(self._pieces):
            return None
        piece = self._pieces[self._sent]
        self._sent += 1
        return piece

    @property
    def pending(self) -> int:
        """Pieces that are not acknowledged."""
        return sum(1 for piece in self._pieces if piece.seq > self._acked)

    def has_speech(self, turn: int) -> bool:
        """Some of what was said in this turn has no ending yet."""
        return any(piece.turn == turn and piece.audio for piece in self._pieces)

    def ack(self, seq: int) -> None:
        """Everything up to this piece is safe with the scheduler."""
        self._acked = max(self._acked, min(seq, self._next_seq - 1))

    def ended(self, seq: int) -> None:
        """The utterance that ends with this piece has its ending."""
        self.ack(seq)
        while self._pieces and self._pieces[0].seq <= seq:
            piece = self._pieces.popleft()
            self.bytes -= len(piece.audio)
            self._sent = max(0, self._sent - 1)

    def turn_of(self, seq: int) -> int | None:
        """The turn that the piece with this number belongs to."""
        return next((piece.turn for piece in self._pieces if piece.seq == seq), None)

    def resume(self) -> int:
        """A new connection of the same session: what is not acknowledged goes again. How many pieces that are."""
        self._sent = len(self._pieces) - self.pending
        return self.pending

    def restart(self) -> int:
        """Another session, which knows nothing: all that has no ending is said once more, under new numbers."""
        for seq, piece in enumerate(self._pieces):
            piece.seq = seq
        self._next_seq = len(self._pieces)
        self._acked, self._sent = -1, 0
        return self._next_seq
