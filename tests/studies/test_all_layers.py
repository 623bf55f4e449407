"""The overview asks the shipped functions."""

import numpy as np
import pytest

from normbook.studies import all_layers
from normlib import layers

SHARED = {
    "Batch norm": ("N", "H", "W"),
    "Layer norm": ("C",),
    "Group norm": ("C", "H", "W"),
    "Instance norm": ("H", "W"),
    "Weight norm": ("in",),
    "Spectral norm": ("out", "in"),
}


@pytest.mark.parametrize("name", SHARED)
def test_the_axes_of_a_layer_are_found_by_moving_one_entry(name):
    assert all_layers.shared_axes(all_layers.ROWS[name]) == SHARED[name]


def test_another_function_in_a_row_has_other_axes():
    row = all_layers.ROWS["Batch norm"]
    assert all_layers.shared_axes(row._replace(forward=layers.instance_norm)) == ("H", "W")


@pytest.mark.parametrize("name", all_layers.ROWS)
def test_what_is_learned_is_what_the_function_takes_beside_its_input(name):
    row = all_layers.ROWS[name]
    given = all_layers.arguments(row)[1:]
    learned = 0 if name == "Spectral norm" else sum(np.size(value) for value in given)
    assert all_layers.count_learned(row) == learned


def test_every_pair_of_functions_with_a_table_of_invariances_has_a_row():
    assert {row.invariant for row in all_layers.ROWS.values()} | {"partial RMS"} == set(
        all_layers.invariances.LAYERS
    )
