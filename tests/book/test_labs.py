"""Labs with blanks are made from the solved ones, and an answer is told what is wrong with it."""

import contextlib
import io
import json

import pytest
from blanks import LABS, make_blank

from normbook.labs import LabError

NAMES = sorted(path.name for path in LABS.glob("solved/*.ipynb"))


def read(path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def run(notebook: dict, wrong: tuple[str, str] = ("", "")) -> str:
    """Run the cells with one text in the place of another, and return what they print."""
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    text, names, said = "\n".join(cells), {}, io.StringIO()
    assert not wrong[0] or text.count(wrong[0]) == 1
    with contextlib.redirect_stdout(said):
        exec(text.replace(*wrong) if wrong[0] else text, names)
    return said.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_a_lab_with_blanks_is_made_from_the_solved_one_and_stops_at_its_first_question(name):
    blank = read(LABS / name)
    assert blank == make_blank(read(LABS / "solved" / name))
    with pytest.raises(LabError, match="is still blank: put your code in the place of the dots"):
        run(blank)


WRONG = [  # a lab, what is written in the place of what, and what is said
    ("1", "x.var(axis=0) * m / (m - 1)", "x.var(axis=0)", "the variance is divided by m, where"),
    ("1", "xhat = (x - mean) / np.sqrt(var + eps)", "xhat = (x - mean) / (np.sqrt(var) + eps)",
     "y: ε stands outside the root"),
    ("2", "-(dxhat * (x - mu)).sum", "(dxhat * (x - mu)).sum", "dvar: the term sum"),
    ("2", "+ dmu / m", "", "dx: "),
    ("2", "- xhat * (d * xhat).mean(axis=0)", "", "the term xhat * mean(d * xhat) is missing"),
    ("3", "r * (d - xhat", "r * (d - d.mean(axis=-1, keepdims=True) - xhat",
     "the term mean(d) does not belong there"),
    ("4", "standard_normal(y.shape)", "normal(1, 0, y.shape)", "it passes"),
    ("4", "bound=1e-6", "bound=1e-20", "it calls the right gradient wrong"),
    ("5", "x.T @ dz", "x.T @ dz / 64", "the gradient of w is wrong in the first step"),
    ("5", "value - rate", "value - 0.9 * rate", "the losses part at step 1"),
]  # fmt: skip


@pytest.mark.parametrize(("lab", "text", "wrong", "says"), WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(lab, text, wrong, says):
    (name,) = (name for name in NAMES if name.startswith(lab))
    with pytest.raises(LabError) as told:
        run(read(LABS / "solved" / name), (text, wrong))
    assert says in str(told.value)
