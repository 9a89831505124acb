"use strict";
const part = (id) => document.getElementById(id);
const token = location.pathname.split("/")[1];
const SPLITS = { train: "training", val: "validation", test: "test" };
const SMALL = 100; // pixels: a smaller image is shown with its pixels
const SAMPLES = 8;
let state, at = 0, subject = 0, busy = false, matches = [], marked = 0;

const item = () => state.items[at];
const label = () => state.images[subject].label;
const suggested = () => (subject === item().image ? item().suggested : state.images[item().image].label);
const name = (number) => state.classes[number].name;
const percent = (share) => (share < 0.001 ? "below 0.1 %" : `${(100 * share).toFixed(1)} %`);

function openness() { // of an item: undecided, and none of its images is dropped elsewhere
  const dropped = new Set(state.items.filter((one) => one.decision?.action === "drop").map((one) => one.decision.image));
  return (one) => one.decision === null && !dropped.has(one.image) && !dropped.has(one.other);
}

function picture(number, kind, words) {
  const image = new Image();
  image.alt = words;
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < SMALL));
  image.src = `${kind}/${number}`;
  return image;
}

function figure(number) {
  const frame = document.createElement("figure"), caption = document.createElement("figcaption");
  const { name: file, label: own, split } = state.images[number];
  frame.className = number === subject ? "subject" : "";
  caption.textContent = `${file} · ${SPLITS[split]}` + (item().other === null ? "" : ` · ${name(own)}`);
  frame.append(picture(number, "image", `Image ${file}, labelled ${name(own)}`), caption);
  return frame;
}

function samples(place, number) {
  const others = state.classes[number].samples.filter((sample) => sample !== item().image && sample !== item().other);
  part(place).replaceChildren(...others.slice(0, SAMPLES).map((sample) => picture(sample, "sample", `Sample of ${name(number)}`)));
}

function counted(number) {
  const images = state.classes[number].images;
  return `${images.toLocaleString("en")} training ${images === 1 ? "image" : "images"}`;
}

function question() {
  const { other, exact } = item();
  if (other === null) return `Is this “${name(label())}”, or rather “${name(suggested())}”?`;
  const same = exact ? "The same image" : "Nearly the same image";
  if (label() !== suggested()) return `${same}, once “${name(label())}” and once “${name(suggested())}”`;
  return `${same} in two splits: drop one of them`;
}

function verdict() {
  const { decision, other } = item();
  if (!decision) return openness()(item()) ? "" : "Dropped before";
  const words = { keep: "Kept", drop: "Dropped", relabel: `Relabelled as “${decision.label}”` }[decision.action];
  return other === null ? words : `${words}: ${state.images[decision.image].name}`;
}

function show() {
  const total = state.items.length, done = total - state.items.filter(openness()).length;
  part("item").hidden = !total;
  part("finish").hidden = false;
  part("decided").textContent = total ? `${done.toLocaleString("en")} decided` : "";
  part("bar").max = total || 1;
  part("bar").value = done;
  showRemarks();
  if (!total) {
    part("question").textContent = "Nothing suspicious was found";
    return;
  }
  const { decision, other, probability, label_probability: own } = item();
  part("question").textContent = question();
  part("place").textContent = `${(at + 1).toLocaleString("en")} of ${total.toLocaleString("en")}`;
  part("pictures").replaceChildren(...[item().image, other].filter((one) => one !== null).map(figure));
  part("verdict").textContent = verdict();
  part("label-title").textContent = `Label: ${name(label())}`;
  part("label-text").textContent = other === null ? `${counted(label())}; held-out probability ${percent(own)}` : counted(label());
  samples("label-samples", label());
  const relabels = label() !== suggested();
  part("suggested").hidden = !relabels;
  part("suggested-title").textContent = `${other === null ? "Suggested" : "Other label"}: ${name(suggested())}`;
  part("suggested-text").textContent = other === null ? `${counted(suggested())}; held-out probability ${percent(probability)}` : counted(suggested());
  samples("suggested-samples", suggested());
  part("keep-text").textContent = other === null ? `Keep ${name(label())}` : "Keep both";
  part("relabel").hidden = !relabels;
  part("relabel-text").textContent = `Relabel as ${name(suggested())}`;
  part("drop-text").textContent = other === null ? "Drop" : "Drop the marked one";
  part("swap").hidden = other === null;
  part("relabel").classList.toggle("first", relabels);
  part("drop").classList.toggle("first", !relabels);
  for (const action of ["keep", "relabel", "drop"]) {
    part(action).setAttribute("aria-pressed", String(decision?.action === action));
  }
  part("back").disabled = at === 0;
  part("next").disabled = at === total - 1;
  if (at + 1 < total) new Image().src = `image/${state.items[at + 1].image}`;
}

function showRemarks() {
  part("remarks").hidden = !state.remarks.length;
  part("remarks").replaceChildren(...state.remarks.map((words) => Object.assign(document.createElement("li"), { textContent: words })));
}

function go(place) {
  at = Math.max(0, Math.min(state.items.length - 1, place));
  subject = item()?.decision?.image ?? item()?.image;
  show();
}

async function post(place, body) {
  if (busy) return null;
  busy = true;
  try {
    const answer = await fetch(place, { method: "POST", headers: { "X-Tailcloud-Token": token }, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    part("error").hidden = true;
    const result = await answer.json();
    state.remarks = result.remarks;
    return result;
  } catch (error) {
    const gone = error instanceof TypeError; // fetch could not reach the server
    part("error").textContent = gone ? "Not saved: tailcloud review does not run any more. Start it again." : `Not saved: ${error.message}`;
    part("error").hidden = false;
    return null;
  } finally {
    busy = false;
  }
}

async function decide(action, chosen = null) {
  if (!state.items.length || (action === "relabel" && chosen === label())) return;
  const place = at, result = await post("decide", { item: place, image: subject, action, label: chosen });
  if (!result) return;
  state.items[place].decision = result.decision;
  const open = openness(), later = state.items.findIndex((one, number) => number > place && open(one));
  const left = later >= 0 ? later : state.items.findIndex(open);
  if (left >= 0) return go(left);
  go(place);
  part("question").textContent = "All images are reviewed";
}

async function undo() {
  const result = await post("undo", {});
  if (!result) return;
  if (result.item === null) return show();
  state.items[result.item].decision = null;
  go(result.item);
}

function swap() {
  if (item()?.other === null) return;
  subject = subject === item().image ? item().other : item().image;
  show();
}

function choose() {
  if (!state.items.length) return;
  part("search").value = "";
  search();
  part("chooser").showModal();
  part("search").focus();
}

function search() {
  const words = part("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  matches = state.classes.map((_, number) => number).filter((number) => words.every((word) => name(number).toLowerCase().includes(word)));
  marked = 0;
  part("matches").replaceChildren(...matches.map((number, row) => {
    const line = document.createElement("li"), images = document.createElement("small");
    images.textContent = ` ${counted(number)}`;
    line.id = `match-${row}`;
    line.setAttribute("role", "option");
    line.append(name(number), images);
    line.addEventListener("click", () => pick(row));
    return line;
  }));
  mark(0);
}

function mark(row) {
  if (!matches.length) return part("search").removeAttribute("aria-activedescendant");
  part(`match-${marked}`)?.setAttribute("aria-selected", "false");
  marked = (row + matches.length) % matches.length;
  part(`match-${marked}`).setAttribute("aria-selected", "true");
  part(`match-${marked}`).scrollIntoView({ block: "nearest" });
  part("search").setAttribute("aria-activedescendant", `match-${marked}`);
}

function pick(row) {
  if (!matches.length) return;
  part("chooser").close();
  decide(matches[row] === label() ? "keep" : "relabel", matches[row] === label() ? null : matches[row]);
}

const KEYS = {
  k: () => decide("keep"), r: () => decide("relabel", suggested()), Enter: () => decide("relabel", suggested()), l: choose,
  d: () => decide("drop"), u: undo, s: swap, ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1),
};

document.addEventListener("keydown", (event) => {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (!state || part("chooser").open || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, key)) return;
  if (key === "Enter" && event.target instanceof HTMLButtonElement) return; // presses that button
  if (!state.items.length && key !== "u") return;
  event.preventDefault();
  if (!event.repeat || key.startsWith("Arrow")) KEYS[key]();
});
part("search").addEventListener("input", search);
part("search").addEventListener("keydown", (event) => {
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves) { event.preventDefault(); mark(marked + moves[event.key]); }
  if (event.key === "Enter") { event.preventDefault(); pick(marked); }
});
const BUTTONS = { keep: KEYS.k, relabel: KEYS.r, other: choose, drop: KEYS.d, swap, undo, back: KEYS.ArrowLeft, next: KEYS.ArrowRight };
for (const [id, action] of Object.entries(BUTTONS)) part(id).addEventListener("click", action);

fetch("state").then((answer) => answer.json()).then((found) => {
  state = found;
  part("out").textContent = state.out;
  part("command").textContent = state.command;
  go(Math.max(0, state.items.findIndex(openness())));
});
