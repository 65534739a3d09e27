"""A node that really recognises, repairs, translates and speaks, with engines that work offline.

In reading order: ``worker`` is the way of a job through the stages, ``audio`` takes speech apart and puts it
together, ``asr``, ``repair``, ``nmt`` and ``tts`` are the stages, ``programs`` keeps other programs running for
them, ``languages`` says what of all that is served.
"""
