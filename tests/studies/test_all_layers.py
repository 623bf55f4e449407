"""The overview leaves no layer out."""

from normbook.studies import all_layers


def test_every_pair_of_functions_with_a_table_of_invariances_has_a_row():
    invariant = {row.invariant for row in all_layers.ROWS.values()} | {"partial RMS"}
    assert invariant == set(all_layers.invariances.LAYERS)
