// The browser's side of the search box: it sends what is typed, shows the answers, and leads the keyboard through them.
// `dashboard/search/box.py` ranks and opens. Links in a page's text that lead to our own pages are followed in this tab.

const DELAY_MS = 90;
const PATIENCE_MS = 30_000;
let current = null;

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".assay-search");
  if (current?.root !== root) {
    current?.end();
    current = new Box(root);
  }
  const box = current;
  box.send = (request) => setTriggerValue("sent", request);
  box.receive(data);
  return () => {
    box.end();
    if (current === box) current = null;
  };
}

class Box {
  constructor(root) {
    this.root = root;
    this.input = root.querySelector("input");
    this.panel = root.querySelector(".panel");
    this.note = root.querySelector(".note");
    this.list = root.querySelector("[role=listbox]");
    this.number = this.shown = this.active = 0;
    this.over = new AbortController();
    root.classList.toggle("mac", /Mac|iPhone|iPad/.test(navigator.platform));
    const on = (target, kind, listener, capture = false) =>
      target.addEventListener(kind, listener, { signal: this.over.signal, capture });
    on(this.input, "input", () => this.later());
    on(this.input, "focus", () => this.ask());
    on(this.input, "keydown", (event) => this.key(event));
    on(this.input, "blur", () => this.close());
    // Before the field loses its focus, which closes the list.
    on(this.list, "mousedown", (event) => event.preventDefault());
    on(this.list, "click", (event) => this.choose(event.target.closest("[role=option]")));
    on(document, "keydown", (event) => this.shortcut(event), true);
    on(document, "click", (event) => this.follow(event), true);
    this.input.setAttribute("aria-keyshortcuts", "Control+K Meta+K");
    this.links = new MutationObserver(() => {
      this.frame ??= requestAnimationFrame(() => this.sameTab());
    });
    this.links.observe(document.body, { childList: true, subtree: true, attributeFilter: ["target"] });
    this.sameTab();
  }

  end() {
    this.over.abort();
    this.links.disconnect();
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }

  shortcut(event) {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.input.focus();
    this.input.select();
  }

  later() {
    clearTimeout(this.timer);
    this.moved = null;
    this.root.setAttribute("aria-busy", "true");
    this.timer = setTimeout(() => this.ask(), DELAY_MS);
  }

  ask(kind = "list") {
    clearTimeout(this.timer);
    this.number += 1;
    this.root.setAttribute("aria-busy", "true");
    this.send({ do: kind, text: this.input.value, number: this.number });
  }

  receive(data) {
    if (data?.go === this.number) this.go();
    // Answers to what was typed before, and runs of the page without an answer, change nothing.
    if (data?.number !== this.number || this.shown === this.number) return;
    this.shown = this.number;
    this.root.removeAttribute("aria-busy");
    if (document.activeElement !== this.input) return;
    this.note.textContent = data.note;
    this.list.replaceChildren(...data.hits.map((hit, place) => option(hit, place)));
    this.panel.hidden = !(data.note || data.hits.length);
    this.input.setAttribute("aria-expanded", String(data.hits.length > 0));
    // What the arrows have chosen stays chosen where it is among the new answers.
    const kept = data.hits.findIndex((hit) => hit.key === this.moved);
    this.activate(Math.max(kept, 0));
  }

  key(event) {
    if (event.isComposing) return;
    const count = this.list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (this.panel.hidden) this.ask();
      else if (count) {
        this.activate((this.active + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
        this.moved = this.list.children[this.active].dataset.key;
      }
    } else if (event.key === "Enter") {
      event.preventDefault();
      const listed = !this.panel.hidden && this.shown === this.number && this.typed === this.input.value;
      if (listed && count) this.choose(this.list.children[this.active]);
      else if (this.input.value.trim()) this.ask("open");
    } else if (event.key === "Escape") {
      if (this.panel.hidden) this.input.blur();
      else this.close();
    }
  }

  // The link comes a moment after the answer that names it; on a busy machine that is seconds.
  go(number = this.number, until = performance.now() + PATIENCE_MS) {
    if (number !== this.number) return;
    const link = document.querySelector(`.st-key-search-go-${number} a`);
    if (link) {
      this.root.removeAttribute("aria-busy");
      this.input.value = "";
      this.input.blur();
      this.number += 1;
      link.click();
    } else if (performance.now() < until && !this.over.signal.aborted) requestAnimationFrame(() => this.go(number, until));
  }

  activate(place) {
    this.active = place;
    this.typed = this.input.value;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === place)));
    const item = this.list.children[place];
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
  }

  choose(item) {
    if (!item) return;
    this.number += 1;
    this.send({ do: "choose", key: item.dataset.key, number: this.number });
    this.close();
  }

  close() {
    this.panel.hidden = true;
    this.list.replaceChildren();
    this.note.textContent = "";
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  sameTab() {
    this.frame = null;
    for (const link of document.querySelectorAll("[data-testid=stMain] a[target=_blank]")) {
      if (link.origin === location.origin) link.removeAttribute("target");
    }
  }

  follow(event) {
    const link = event.target.closest?.("[data-testid=stMarkdownContainer] a[href], .assay-table a[href]");
    const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    if (!link || !plain || link.origin !== location.origin || link.hasAttribute("download")) return;
    event.preventDefault();
    this.number += 1;
    this.send({ do: "follow", key: link.href, number: this.number });
  }
}

function option(hit, place) {
  const item = document.createElement("div");
  item.id = `assay-search-${place}`;
  item.setAttribute("role", "option");
  item.dataset.key = hit.key;
  for (const [name, kind] of [["title", "b"], ["kind", "span"], ["detail", "span"]]) {
    const part = document.createElement(kind);
    part.className = name;
    part.textContent = hit[name];
    item.append(part);
  }
  return item;
}
