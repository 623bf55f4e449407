// Makes the ledger sortable and filterable. Without scripts the table is whole, in its own order.
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("table.ledger");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const text = (row, column) => row.cells[column].textContent.trim();
  const columns = [...table.tHead.rows[0].cells];
  const column = (name) => columns.findIndex((cell) => cell.textContent.trim() === name);
  const filters = {
    "said by": (row) => row.dataset.sources.split("|"), // the fold shows the lines as well
    verdict: (row) => [text(row, column("verdict"))],
    "decided in": (row) => [row.dataset.page].filter(Boolean),
    "decided by": (row) => [row.dataset.evidence].filter(Boolean),
  };

  const bar = document.createElement("form");
  bar.className = "ledger-filters";
  const words = document.createElement("input");
  words.type = "search";
  words.placeholder = "words of a claim";
  const selects = Object.entries(filters).map(([name, valuesOf]) => {
    const field = document.createElement("select");
    field.add(new Option(`${name}: all`, ""));
    for (const value of new Set(rows.flatMap(valuesOf))) field.add(new Option(value));
    return [field, valuesOf];
  });
  const count = document.createElement("output");
  const fields = [words, ...selects.map(([field]) => field)];
  ["words", ...Object.keys(filters)].forEach((name, n) => fields[n].setAttribute("aria-label", name));
  bar.append(words, count, ...fields.slice(1));

  // re-centre, re-centring, recentering: one word, however it is spelled.
  const plain = (said) => said.toLowerCase().replaceAll("-", "").replace(/cent(er|r)(?=e|i|\b)/g, "centr");

  function apply() {
    const wanted = plain(words.value).split(/\s+/);
    const chosen = rows.filter((row) => selects.every(([field, valuesOf]) => !field.value || valuesOf(row).includes(field.value)));
    const met = new Map(chosen.map((row) => [row, wanted.filter((word) => plain(row.textContent).includes(word)).length]));
    // Where no claim has all the words, those that have the most of them, and half at least.
    const most = Math.max(Math.ceil(wanted.length / 2), ...met.values());
    for (const row of rows) row.hidden = met.get(row) !== most;
    const found = rows.filter((row) => !row.hidden);
    const some = most < wanted.length ? `No claim has all these words; with ${most} of them: ` : "";
    count.value = found.length
      ? `${some}${found.length} of ${rows.length} claims`
      : "No claim has these words. The search of the book (/) looks in all pages.";
  }

  // What was chosen is there again when the reader comes back from a claim.
  bar.addEventListener("input", () => {
    apply();
    history.replaceState({ chosen: fields.map((field) => field.value) }, "");
  });
  fields.forEach((field, n) => (field.value = history.state?.chosen?.[n] ?? ""));

  columns.forEach((cell, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      columns.forEach((other) => other.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) =>
        text(a, index).localeCompare(text(b, index), "en", { numeric: true });
      body.append(...[...rows].sort((a, b) => (down ? order(b, a) : order(a, b))));
    });
  });

  // A link to a claim shows it, open, whatever was filtered before.
  const show = () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!rows.includes(row)) return;
    if (row.hidden) bar.reset();
    apply();
    row.querySelector("details").open = true;
    row.scrollIntoView();
  };
  addEventListener("hashchange", show);
  bar.addEventListener("submit", (event) => event.preventDefault());
  (table.closest(".cell") ?? table).before(bar); // a cell scrolls sideways, and would keep it
  apply();
  show();
});
