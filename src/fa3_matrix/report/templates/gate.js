// Sorts and filters the table of cells. Without it the table is whole, in the document's order.
(() => {
  const table = document.querySelector("table.sortable");
  const rows = [...table.tBodies[0].rows];
  const filter = document.querySelector(".filter");
  const verdict = filter.querySelector("select");
  const words = filter.querySelector("input");

  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = (!verdict.value || row.dataset.verdict === verdict.value)
        && wanted.every((word) => text.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    filter.querySelector("output").textContent = `${shown} of ${rows.length} cells`;
  };
  verdict.addEventListener("change", show);
  words.addEventListener("input", show);
  filter.hidden = false;
  show();

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
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const descending = heading.ariaSort === "ascending";
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      heading.ariaSort = descending ? "descending" : "ascending";
      rows.sort(compare(column, descending ? -1 : 1));
      table.tBodies[0].append(...rows);
    });
  });
})();
