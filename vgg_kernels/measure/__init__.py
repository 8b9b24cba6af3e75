"""How long does it take? Reading order: ``plan`` (what in which order), ``run`` (the parent), ``worker`` (one process),
``device``, ``torch_device``, ``variants``, ``timed_call``, ``timers``, ``layers``, ``profile``, ``peak_rates``, ``l2``,
``telemetry``, ``provenance``, ``summary`` (what came of it), ``explain``. Callers use ``records.session.run``.
"""
