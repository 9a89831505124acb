for (const box of document.querySelectorAll(".search")) {
  const input = box.querySelector("input"), found = box.querySelector("output");
  const rows = [...box.parentElement.querySelectorAll("tbody tr, .searchable")].map(
    (row) => [row, [...row.querySelectorAll("th, .group")].map((cell) => cell.textContent).join(" ").toLowerCase()]);
  box.hidden = false;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    found.textContent = words.length ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
  });
}
