"""Imported once by the server that children are forked from: compiles what runs need."""

from tests.faults import PLANS, begin

for plan in PLANS:
    begin(plan, draws=2)
