"""The overview asks the shipped functions."""

from normbook.studies import all_layers
from normlib import layers


def test_another_function_in_a_row_has_other_axes():
    row = all_layers.ROWS["Batch norm"]
    assert all_layers.shared_axes(row._replace(forward=layers.instance_norm)) == ("H", "W")
