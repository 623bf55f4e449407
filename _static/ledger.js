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
    "said by": (row) => row.dataset.sources.split("|"), // the text shows the lines as well
    verdict: (row) => [text(row, column("verdict"))],
    "decided in": (row) => [text(row, column("decided in"))],
    "decided by": (row) => [row.dataset.evidence].filter(Boolean),
  };

  const bar = document.createElement("form");
  bar.className = "ledger-filters";
  const count = document.createElement("output");

  const add = (name, field) => {
    const label = document.createElement("label");
    label.append(name, field);
    field.setAttribute("aria-label", name); // else its options count as part of its name
    bar.append(label);
    field.addEventListener("input", apply);
    return field;
  };

  const selects = Object.entries(filters).map(([name, valuesOf]) => {
    const field = document.createElement("select");
    field.add(new Option("all", ""));
    for (const value of new Set(rows.flatMap(valuesOf))) field.add(new Option(value));
    return [add(name, field), valuesOf];
  });
  const words = add("words", Object.assign(document.createElement("input"), { type: "search" }));

  function apply() {
    const wanted = words.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !(
        selects.every(([field, valuesOf]) => !field.value || valuesOf(row).includes(field.value)) &&
        wanted.every((word) => content.includes(word))
      );
    }
    count.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
  }

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

  // A link to a claim shows it, whatever was filtered before.
  const show = () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row?.hidden) {
      bar.reset();
      apply();
      row.scrollIntoView();
    }
  };
  addEventListener("hashchange", show);
  bar.addEventListener("submit", (event) => event.preventDefault());
  bar.append(count);
  (table.closest(".cell") ?? table).before(bar); // a cell scrolls sideways, and would keep it
  apply();
});
