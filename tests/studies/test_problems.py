"""Problems that come out even, and the list of all exercises."""

import json

import numpy as np
import pytest

from normbook.show.table import fraction
from normbook.studies import problems


def test_the_example_of_the_book_is_found_and_solved_as_on_paper():
    kind = problems.KINDS["batch norm"]
    assert (0, 6, 6, 8) in problems.list_even(kind)
    x, dy = np.array([0.0, 6, 6, 8]), np.array([1.0, 0, 0, 0])
    solved = problems.solve(kind, x, np.ones(4), dy)
    assert np.allclose(solved.dx * 54, [1, -2, -2, 3]) and np.allclose(solved.y * 3, [-5, 1, 1, 3])


@pytest.mark.parametrize("name", problems.KINDS)
def test_every_row_that_is_drawn_comes_out_even_whatever_the_seed(name):
    kind = problems.KINDS[name]
    assert len(problems.list_even(kind)) >= 5
    for seed in range(40):
        for problem in problems.sheet(kind, np.random.default_rng(seed)):
            for numbers in problem:
                assert all(map(fraction, numbers))  # it refuses what is no simple fraction
            assert problem.dx.any()


def write_page(folder, *cells):
    cells = [{"cell_type": "markdown", "source": [cell]} for cell in cells]
    (folder / "page.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")


def test_exercises_are_read_up_to_the_next_section_and_must_say_their_kind(tmp_path):
    fold = "<details><summary>Hint</summary>\n\nLook.\n\n</details>"
    one, two = (f"**{n}.** *To think.* Why $x_{n}$?\n\n{fold}\n" for n in (1, 2))
    write_page(tmp_path, f"## Exercises\n\n{one}\n{two}", one, "## Recap", one)
    found = problems.exercises(tmp_path, ["page"])
    assert [(e.number, e.grade, e.text) for e in found] == [
        (n, "To think", f"Why $x_{n}$?") for n in (1, 2, 1)
    ]
    for wrong in (
        one.replace("*To think.* ", ""),
        one.replace("think", "sing"),
        "**1.** *To think.* x",
    ):
        write_page(tmp_path, f"## Exercises\n\n{wrong}")
        with pytest.raises(ValueError, match="expected a grade of On paper"):
            problems.exercises(tmp_path, ["page"])
