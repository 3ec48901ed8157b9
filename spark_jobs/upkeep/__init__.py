"""``maintain`` and ``check_invariants``: small tables; heads, plans and log that agree.

``job_facts.py`` and ``job_state.py`` read; ``delta_vacuum.py`` and ``rejected_rows_cleanup.py``
change tables; ``retention.py``, ``expired_rows.py`` and ``invariants.py`` are pure.
"""
