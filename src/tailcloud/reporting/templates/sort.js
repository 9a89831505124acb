for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], units = { k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  const text = (row, column) => row.cells[column].textContent.trim().replaceAll("−", "-");
  const missing = (words) => ["", "–", "n/a", "failed"].includes(words);
  const number = (words) => {
    const found = words.match(/^([+-]?[\d,]*\.?\d+)(?:\s([kMGT])\b)?/);
    return found ? Number(found[1].replaceAll(",", "")) * (units[found[2]] ?? 1) : NaN;
  };
  const sort = (column, direction) => {
    const rows = [...body.rows], known = rows.filter((row) => !missing(text(row, column)));
    const numeric = known.every((row) => !Number.isNaN(number(text(row, column))));
    const compare = numeric ? (a, b) => number(a) - number(b) : (a, b) => a.localeCompare(b, "en", { numeric: true });
    const sign = (direction ??= numeric ? "descending" : "ascending") === "ascending" ? 1 : -1;
    known.sort((a, b) => sign * compare(text(a, column), text(b, column)));
    body.append(...known, ...rows.filter((row) => missing(text(row, column))));
    return direction;
  };
  for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
    const button = Object.assign(document.createElement("button"), { type: "button" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const direction = sort(column, { ascending: "descending", descending: "ascending" }[head.getAttribute("aria-sort")]);
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction);
    });
  }
}
