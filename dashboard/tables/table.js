// The browser's side of `dashboard/tables/result_table.py`: it draws the rows, sorts them by their raw values, and leads the keyboard.

const kept = new Map();
// Letters from which a text takes several lines.
const WRAPPED = 40;

export default function ({ parentElement, data, key }) {
  const sent = JSON.stringify(data);
  const old = parentElement.querySelector(".assay-table");
  if (old?.dataset.sent === sent) return;
  const state = kept.get(key) ?? { column: -1, falling: false, all: false };
  kept.set(key, state);
  const table = new Table(data, state);
  table.root.dataset.sent = sent;
  old?.remove();
  parentElement.append(table.root);
}

class Table {
  constructor(data, state) {
    this.data = data;
    this.state = state;
    this.count = data.columns[0]?.values.length ?? 0;
    if (state.column >= data.columns.length) state.column = -1;
    this.scales = data.columns.map(scale);
    this.root = made("div", "assay-table");
    const frame = made("div", "frame", { tabIndex: 0, ariaLabel: data.words, role: "region" });
    frame.style.maxHeight = `${data.height}px`;
    this.table = made("table", "");
    this.head = made("thead", "");
    this.body = made("tbody", "");
    this.table.append(this.head, this.body);
    frame.append(this.table);
    this.foot = made("div", "foot");
    this.root.append(frame, this.foot);
    this.drawHead();
    this.draw();
    this.body.addEventListener("keydown", (event) => this.walk(event));
    this.body.addEventListener("click", (event) => this.open(event));
  }

  drawHead() {
    const row = made("tr", "");
    this.data.columns.forEach((column, at) => {
      const cell = made("th", kind(column), { scope: "col", title: column.help });
      const button = made("button", "", { type: "button", textContent: column.head });
      button.append(made("span", "arrow", { ariaHidden: "true" }));
      button.addEventListener("click", () => this.sort(at));
      cell.append(button);
      row.append(cell);
    });
    this.head.replaceChildren(row);
  }

  // First the way that is asked for most: numbers from the largest, words from A; then the other way; then as they came.
  sort(at) {
    const state = this.state;
    const first = this.data.columns[at].number;
    if (state.column !== at) Object.assign(state, { column: at, falling: first });
    else if (state.falling === first) state.falling = !first;
    else state.column = -1;
    this.draw();
  }

  order() {
    const rows = Array.from({ length: this.count }, (_, row) => row);
    const { column, falling } = this.state;
    if (column < 0) return rows;
    const values = this.data.columns[column].values;
    const sign = falling ? -1 : 1;
    return rows.sort((one, other) => {
      const [a, b] = [values[one], values[other]];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" && typeof b === "number" ? a - b : compared(String(a), String(b)));
    });
  }

  draw() {
    const { data, state } = this;
    [...this.head.rows[0].cells].forEach((cell, at) => {
      cell.ariaSort = at !== state.column ? "none" : state.falling ? "descending" : "ascending";
    });
    const order = this.order();
    const drawn = state.all ? order : order.slice(0, data.atOnce);
    this.body.replaceChildren(...drawn.map((row) => this.row(row)));
    if (this.body.rows.length) this.body.rows[0].tabIndex = 0;
    const copy = made("button", "", { type: "button", textContent: "Copy table" });
    copy.addEventListener("click", () => this.copy(order, copy));
    const parts = [copy];
    if (drawn.length < order.length) {
      const more = made("button", "", { type: "button", textContent: `Show all ${order.length.toLocaleString("en")}` });
      more.addEventListener("click", () => {
        state.all = true;
        this.draw();
      });
      parts.push(more);
    }
    this.foot.replaceChildren(...parts);
  }

  row(at) {
    const row = made("tr", "", { tabIndex: -1 });
    this.data.columns.forEach((column, place) => {
      const cell = made(place ? "td" : "th", kind(column));
      if (!place) cell.scope = "row";
      if (column.number) cell.dataset.value = column.values[at] ?? "";
      if (column.parts) cell.append(mixed(column.parts[at], this.data.colours));
      const text = column.shown[at];
      if (text.length > WRAPPED || text.includes("\n")) cell.classList.add("wraps");
      const link = column.links?.[at];
      if (link) cell.append(made("a", "", { href: link, textContent: text }));
      else cell.append(made("span", column.values[at] === null ? "missing" : "", { textContent: text }));
      if (column.low) cell.append(this.scales[place](column, at));
      if (column.share) cell.append(filled(column.share[at]));
      row.append(cell);
    });
    return row;
  }

  walk(event) {
    const row = event.target.closest("tr");
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (step && row[step]) {
      event.preventDefault();
      row.tabIndex = -1;
      row[step].tabIndex = 0;
      row[step].focus();
    } else if (event.key === "Enter" && event.target === row) row.querySelector("a")?.click();
  }

  // A click beside a name opens the row as well, where nothing is being selected.
  open(event) {
    if (event.target.closest("a, button") || String(getSelection())) return;
    event.target.closest("tr")?.querySelector("th a, td:first-of-type a")?.click();
  }

  copy(order, button) {
    const { columns } = this.data;
    const lines = [columns.map((column) => column.head)];
    for (const row of order) lines.push(columns.map((column) => column.shown[row].replace(/\s+/g, " ")));
    const area = made("textarea", "", { value: lines.map((line) => line.join("\t")).join("\n") });
    button.after(area);
    area.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Copy table";
    area.remove();
    button.focus();
  }
}

// How a column is laid out. Bars of parts begin at one line.
function kind(column) {
  return [column.number && "number", column.parts && "parts"].filter(Boolean).join(" ");
}

// Intervals of a column share one scale: from zero, or in powers of ten where the largest value is thirty times the smallest.
function scale(column) {
  if (!column.low) return null;
  const known = [...column.values, ...column.low, ...column.high].filter((value) => typeof value === "number" && value >= 0);
  const most = Math.max(...known, 0);
  const least = Math.min(...known.filter((value) => value > 0), most);
  const log = least > 0 && most / least > 30;
  const share = (value) => (log ? Math.log(Math.max(value, least) / least) / Math.log(most / least) : most ? value / most : 0);
  return (of, at) => {
    const bar = made("span", "interval", { ariaHidden: "true" });
    const [value, low, high] = [of.values[at], of.low[at], of.high[at]];
    if (value === null) return bar;
    if (low !== null && high !== null) {
      const line = made("i", "line");
      line.style.left = `${100 * share(low)}%`;
      line.style.width = `${100 * Math.max(share(high) - share(low), 0.01)}%`;
      bar.append(line);
    }
    const dot = made("i", "dot");
    dot.style.left = `${100 * share(value)}%`;
    bar.append(dot);
    return bar;
  };
}

// How full something is; what is over the brim is full.
function filled(share) {
  const bar = made("span", "filled", { ariaHidden: "true" });
  if (share === null) bar.classList.add("unknown");
  const part = made("i", share > 1 ? "over" : "");
  part.style.width = `${100 * Math.min(share ?? 0, 1)}%`;
  bar.append(part);
  return bar;
}

function mixed(parts, colours) {
  const bar = made("span", "mixed", { ariaHidden: "true" });
  for (const [name, count] of Object.entries(parts ?? {})) {
    if (!count) continue;
    const part = made("i", "", { title: `${count} ${name}` });
    part.style.flexGrow = count;
    part.style.background = colours[name] ?? colours.unjudged;
    bar.append(part);
  }
  return bar;
}

function compared(one, other) {
  return one.localeCompare(other, "en", { numeric: true, sensitivity: "base" });
}

function made(kind, name, members = {}) {
  const element = document.createElement(kind);
  if (name) element.className = name;
  for (const [member, value] of Object.entries(members)) if (value !== "") element[member] = value;
  return element;
}
