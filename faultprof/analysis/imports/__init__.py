"""Recordings made of other tools' text: ``perf script``, folded stacks, call graphs, tables.

Each format has its module: ``perf_script``, ``folded``, ``perf_report``, and for tables those of
``analysis`` (``lkp_table``, ``value_arrays``, ``round_tables``) with ``tables`` as the way into a
recording and out again. ``formats`` tells them apart and makes the metadata.

This stands in ``analysis`` and not in ``capture``, because it measures nothing and touches no
machine: a text goes in, paths and an account of its lines come out, the same everywhere. It stands
above ``recording``, because it must know the tables of ``analysis`` as well as call trees.
"""
