"""Twelve English sentences, with words that their Spanish must have."""

from __future__ import annotations

import re
import subprocess

from speech_node.audio import Samples
from speech_node.tts import samples_of

SENTENCES: list[tuple[str, set[str]]] = [
    ("The train to Madrid leaves at ten o'clock in the morning.", {"tren", "madrid", "mañana"}),
    ("My brother works in a small library near the river.", {"hermano", "biblioteca", "pequeña", "río"}),
    ("I would like a cup of coffee with milk and sugar.", {"gustaría", "café", "leche", "azúcar"}),
    ("Where is the nearest hospital?", {"dónde", "hospital", "cercano"}),
    ("The children are playing in the garden.", {"niños", "jardín"}),
    ("We need two tickets for the museum tomorrow.", {"necesitamos", "museo", "mañana"}),
    ("The water in the lake is very cold today.", {"lago", "muy", "hoy"}),
    ("She bought a red car last week.", {"compró", "coche", "semana"}),
    ("Please open the window and close the door.", {"ventana", "puerta"}),
    ("My sister speaks three languages.", {"hermana", "habla", "tres"}),
    ("The book is on the table in the kitchen.", {"libro", "mesa", "cocina"}),
    ("Thank you very much for your help.", {"muchas", "gracias", "ayuda"}),
]


def spoken(text: str) -> Samples:
    """An American voice that takes its time."""
    command = ["espeak-ng", "-v", "en-us", "-s", "140", "--stdin", "--stdout"]
    return samples_of(subprocess.run(command, input=text.encode(), check=True, capture_output=True).stdout)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower())


def word_errors(said: str, heard: str) -> int:
    """Words to change, add or drop."""
    expected, got = words(said), words(heard)
    row = list(range(len(got) + 1))
    for i, word in enumerate(expected, 1):
        before, row[0] = row[0], i
        for j, against in enumerate(got, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != against))
    return row[-1]
