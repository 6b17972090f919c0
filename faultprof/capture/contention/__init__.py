"""Contention beside a recording: one module per part, ``parts`` lists them and runs them."""
