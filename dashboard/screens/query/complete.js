// Completes names of views and columns in the editor of the Query page: the views after FROM and JOIN, else the columns of the views that the text names.

const EDITOR = ".st-key-query-editor textarea";
const MOST = 8;

export default function ({ parentElement, data }) {
  const list = parentElement.querySelector(".query-names") ?? made(parentElement);
  const names = new Names(list, data.views);
  const heard = {
    input: (event) => event.target.matches?.(EDITOR) && names.offer(event.target),
    keydown: (event) => event.target.matches?.(EDITOR) && names.key(event),
    focusout: (event) => event.target.matches?.(EDITOR) && names.close(),
  };
  // Before the editor's own keys, so that an arrow or Tab that chooses a name does nothing else.
  for (const [kind, hear] of Object.entries(heard)) document.addEventListener(kind, hear, true);
  return () => {
    for (const [kind, hear] of Object.entries(heard)) document.removeEventListener(kind, hear, true);
  };
}

function made(parent) {
  const list = document.createElement("ul");
  Object.assign(list, { className: "query-names", id: "query-names", hidden: true, role: "listbox", ariaLabel: "Names that fit" });
  parent.append(list);
  return list;
}

class Names {
  constructor(list, views) {
    this.list = list;
    this.views = views;
    this.chosen = 0;
    this.walked = false;
    // A press on a name must not take the cursor out of the editor.
    list.onmousedown = (event) => event.preventDefault();
    list.onclick = (event) => {
      const row = event.target.closest("li");
      if (row) this.take(row.dataset.name);
    };
  }

  offer(area) {
    const before = area.value.slice(0, area.selectionStart);
    const word = /[A-Za-z_]\w*$/.exec(before)?.[0] ?? "";
    const found = word ? this.fitting(word, before, area.value) : [];
    if (!found.length || (found.length === 1 && found[0][0] === word)) return this.close();
    this.area = area;
    this.word = word;
    this.chosen = 0;
    this.walked = false;
    this.list.replaceChildren(...found.map(([name, about], place) => this.row(name, about, place)));
    this.list.hidden = false;
    const { left, top } = caret(area, area.selectionStart - word.length);
    this.list.style.left = `${Math.max(4, Math.min(left, innerWidth - this.list.offsetWidth - 8))}px`;
    this.list.style.top = `${Math.min(top, innerHeight - this.list.offsetHeight - 8)}px`;
    area.setAttribute("aria-autocomplete", "list");
    area.setAttribute("aria-controls", this.list.id);
    this.mark();
  }

  fitting(word, before, text) {
    const views = Object.keys(this.views).map((name) => [name, "view"]);
    const named = Object.keys(this.views).filter((name) => new RegExp(`\\b${name}\\b`, "i").test(text));
    const columns = (named.length ? named : Object.keys(this.views)).flatMap((view) => this.views[view].map((name) => [name, view]));
    const from = /\b(?:from|join)\s+\w*$/i.test(before);
    const offered = new Map((from ? views : [...columns, ...views]).reverse());
    const wanted = word.toLowerCase();
    const place = ([name]) => name.toLowerCase().indexOf(wanted);
    return [...offered]
      .filter((item) => place(item) >= 0 && (place(item) === 0 || wanted.length > 1))
      .sort((one, other) => Math.sign(place(one)) - Math.sign(place(other)) || (one[1] === "view") - (other[1] === "view") || one[0].length - other[0].length || one[0].localeCompare(other[0]))
      .slice(0, MOST);
  }

  row(name, about, place) {
    const row = document.createElement("li");
    Object.assign(row, { id: `query-name-${place}`, role: "option", textContent: name });
    row.dataset.name = name;
    const whose = document.createElement("small");
    whose.textContent = about;
    row.append(whose);
    return row;
  }

  mark() {
    [...this.list.children].forEach((row, place) => (row.ariaSelected = String(place === this.chosen)));
    this.area.setAttribute("aria-activedescendant", `query-name-${this.chosen}`);
  }

  // Tab takes the name that is marked, Enter only one that was walked to: it ends a line otherwise.
  key(event) {
    if (this.list.hidden || event.ctrlKey || event.metaKey) return this.close();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const most = this.list.children.length;
      this.chosen = (this.chosen + step + most) % most;
      this.walked = true;
      this.mark();
    } else if (event.key === "Tab" || (event.key === "Enter" && this.walked)) this.take(this.list.children[this.chosen].dataset.name);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  take(name) {
    const { area, word } = this;
    area.focus();
    area.setSelectionRange(area.selectionStart - word.length, area.selectionStart);
    // As if it were typed: it can be undone, and the page hears of it.
    document.execCommand("insertText", false, name);
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.area?.removeAttribute("aria-activedescendant");
  }
}

// Where a letter of the editor stands on the screen: that of the same text in an element that lies over it.
function caret(area, place) {
  const twin = document.createElement("div");
  const look = getComputedStyle(area);
  for (const name of ["font", "padding", "border", "lineHeight", "letterSpacing", "boxSizing", "width"]) twin.style[name] = look[name];
  Object.assign(twin.style, { position: "absolute", visibility: "hidden", whiteSpace: "pre-wrap", overflowWrap: "break-word" });
  twin.textContent = area.value.slice(0, place);
  const end = document.createElement("span");
  end.textContent = "x";
  twin.append(end);
  document.body.append(twin);
  const box = area.getBoundingClientRect();
  const at = { left: box.left + end.offsetLeft, top: box.top + end.offsetTop - area.scrollTop + end.offsetHeight + 4 };
  twin.remove();
  return at;
}
