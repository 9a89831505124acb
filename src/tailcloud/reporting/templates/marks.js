{
  const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  let shown = null;
  const show = (mark, x, y) => {
    shown?.classList.remove("named");
    shown = mark;
    tip.hidden = !mark;
    if (!mark) return;
    mark.classList.add("named");
    if (tip.textContent !== mark.dataset.name) tip.textContent = mark.dataset.name;
    const { width, height } = tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(8, Math.min(x - width / 2, room - width - 8))}px`;
    tip.style.top = `${y - height - 14 < 4 ? y + 18 : y - height - 14}px`;
  };
  const middle = (mark) => {
    const box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  for (const svg of document.querySelectorAll("figure svg")) {
    if (!svg.querySelector("title")) continue;
    let marks, small;
    const names = () => {
      marks ??= [...svg.querySelectorAll("title")].map((title) => {
        const mark = title.parentElement;
        mark.dataset.name = title.textContent;
        title.remove();
        return mark;
      });
      small ??= marks.filter((mark) => {
        const box = mark.getBBox();
        return mark.parentElement.matches("g") && Math.min(box.width, box.height) < 3;
      });
      return marks;
    };
    const nearest = (x, y) => {
      let best = null, least = 14 ** 2;
      for (const mark of small) {
        const [left, top] = middle(mark), distance = (left - x) ** 2 + (top - y) ** 2;
        if (distance < least) [best, least] = [mark, distance];
      }
      return best;
    };
    const point = (event) => {
      names();
      const { clientX: x, clientY: y } = event, under = event.target.closest("[data-name]");
      show(nearest(x, y) ?? under, x, y);
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", (event) => event.pointerType === "touch" || show(null));
    svg.tabIndex = 0;
    svg.addEventListener("focus", () => svg.matches(":focus-visible") && names() && show(marks[0], ...middle(marks[0])));
    svg.addEventListener("blur", () => show(null));
    svg.addEventListener("keydown", (event) => {
      const at = names().indexOf(shown), last = marks.length - 1;
      const to = {
        ArrowRight: Math.min(at + 1, last), ArrowDown: Math.min(at + 1, last),
        ArrowLeft: Math.max(at - 1, 0), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last, Escape: -1,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(marks[to] ?? null, ...(marks[to] ? middle(marks[to]) : []));
    });
  }
  document.addEventListener("pointerdown", (event) => event.target.closest("figure svg") || show(null));
  document.addEventListener("scroll", () => {
    const focused = shown && document.activeElement.contains(shown) && document.activeElement !== document.body;
    focused ? show(shown, ...middle(shown)) : show(null);
  }, { capture: true, passive: true });
}
