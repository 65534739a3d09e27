"""Speak to Lingua Scheduler from an asyncio program: a session that survives its connections.

``Session`` opens, says speech from a file, an array of samples or a live source, and tells every ending once and in
order. In reading order: ``session`` the life of a session, ``opening`` how it is opened and what an end means,
``outbox`` speech until its ending is heard, ``wire`` the messages, ``audio`` speech as the scheduler takes it.
"""

from .opening import SessionError
from .session import Session
from .wire import Ending, Missing, Translation

__all__ = ["Ending", "Missing", "Session", "SessionError", "Translation"]
__version__ = "0.1.0"
