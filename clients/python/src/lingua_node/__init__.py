"""Write a node of Lingua Scheduler as one async function.

``Node`` keeps the connection, the heartbeats, the slots, the deadlines and the results; a worker is
``async def handle(job: Job) -> Result``. In reading order: ``job`` is what a worker sees, ``node`` the life of
a node, ``link`` one connection, ``work`` the jobs that run and the results that nobody has confirmed, ``wire``
the messages, ``activity`` which lines it logs, ``threads`` the way for workers that block, ``machine`` what the
machine has, ``check`` the command ``lingua-node check``. ``lingua_socket`` is shared with ``lingua_client``.
"""

from .job import Busy, Job, JobFailed, MissingModel, Result
from .link import Refused
from .machine import hardware
from .node import Node, Stats
from .threads import in_thread
from .wire import Languages

__all__ = [
    "Busy",
    "Job",
    "JobFailed",
    "Languages",
    "MissingModel",
    "Node",
    "Refused",
    "Result",
    "Stats",
    "hardware",
    "in_thread",
]
__version__ = "0.1.0"
