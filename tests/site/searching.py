"""Ask the search of a built site, in a browser:

python tests/site/searching.py _build/html "syncbn" "validation loss nan"
python tests/site/searching.py _build/html FILE    one question a line, "| page#section …" behind it
"""

import sys
from pathlib import Path

QUESTIONS = Path(__file__).with_name("questions.txt")
# Of each question the first five answers, from the index as it is or from one changed beforehand.
ASK = """([questions, change]) => {
  const search = bookSearch({...searchIndex, ...change});
  const place = ({page, kind, anchor, heading}) => [`${page}#${anchor}`, heading];
  return questions.map(question => search.find(question).slice(0, 5).map(place));
}"""


def read(path):
    """The questions of a file, each with the places that answer it."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    parts = (line.split("|") for line in lines if line.strip() and not line.startswith("#"))
    return {question.strip(): " ".join(places).split() for question, *places in parts}


def ask(page, questions, change=None):
    """The answers that the page of the search, open in a browser, has for each question."""
    page.wait_for_function("() => Boolean(globalThis.bookSearch && globalThis.searchIndex)")
    return dict(zip(questions, page.evaluate(ASK, [[*questions], change or {}]), strict=True))


def is_found(answers, places):
    """Whether one of the places is among the first three; a star stands for the rest of it."""
    first = [place.removeprefix("chapters/") for place, _ in answers[:3]]
    return any(
        at.startswith(p[:-1]) if p.endswith("*") else at == p for at in first for p in places
    )


def main(folder, *asked):
    import chromium
    from playwright.sync_api import sync_playwright

    asked = read(asked[0]) if Path(asked[0]).is_file() else {question: [] for question in asked}
    with sync_playwright() as playwright:
        start = playwright.chromium.launch
        page = start(executable_path=chromium.path(), args=["--no-sandbox"]).new_page()
        page.goto(Path(folder, "search.html").resolve().as_uri())
        for question, answers in ask(page, asked).items():
            missed = asked[question] and not is_found(answers, asked[question])
            print(f"{question}{'   NOT FOUND' if missed else ''}")
            for place, heading in answers:
                print(f"    {place:70} {heading[:60]}")


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2] / "tools"))
    main(*sys.argv[1:])
