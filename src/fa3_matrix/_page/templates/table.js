// Filters and sorts the page's tables. Without it each is whole, in the document's order.
for (const filter of document.querySelectorAll(".filter")) {
  const rows = [...document.getElementById(filter.dataset.table).tBodies[0].rows];
  const text = new Map();
  const selects = [...filter.querySelectorAll("select")];
  const words = filter.querySelector("input");

  // Read when first asked for: a page may have thousands of rows that nobody filters.
  const holds = (row, word) => {
    if (!text.has(row)) text.set(row, row.textContent.toLowerCase());
    return text.get(row).includes(word);
  };
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = selects.every((select) => !select.value || row.dataset[select.name] === select.value)
        && wanted.every((word) => holds(row, word));
      row.hidden = !fits;
      shown += fits;
    }
    filter.querySelector("output").textContent = `${shown} of ${rows.length}`;
  };
  for (const select of selects) select.addEventListener("change", show);
  words.addEventListener("input", show);
  filter.hidden = false;
  show();
}

// Numbers by value, those missing last either way; all else by text, d64 before d128.
const compare = (column, sign) => (one, other) => {
  const a = one.cells[column], b = other.cells[column];
  if (a.dataset.value === undefined) {
    return sign * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  }
  if (!a.dataset.value || !b.dataset.value) {
    return !a.dataset.value - !b.dataset.value;
  }
  return sign * (a.dataset.value - b.dataset.value);
};
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const descending = heading.ariaSort === "ascending";
      for (const other of headings) other.ariaSort = null;
      heading.ariaSort = descending ? "descending" : "ascending";
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare(column, descending ? -1 : 1)));
    });
  });
}
