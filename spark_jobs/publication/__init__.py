"""``prepare`` and ``publish``: review of a draft, and the change of the head.

``publisher.py`` has the order of the steps, ``draft_checks.py`` the checks that refuse a draft,
``heads.py`` the one change of ``plans.heads``, ``plan_events.py`` the rows of ``plans.log``.
"""
