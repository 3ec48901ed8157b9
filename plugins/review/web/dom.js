// Makes elements from data. Text is added as text nodes only: no HTML is parsed.

/** An element with properties and children; other values become text. */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** A table; columns are {title, of: row => text or node, number, long}. */
export function table(caption, columns, rows, empty = "(none yet)") {
  if (rows.length === 0) return h("p", { class: "quiet" }, `${caption}: ${empty}`);
  const kind = (column) => [column.number && "number", column.long && "long"].filter(Boolean).join(" ") || null;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: kind(c) }, c.title)))),
      h("tbody", {}, rows.map((row) =>
        h("tr", {}, columns.map((c) => h("td", { class: kind(c) }, c.of(row) ?? "–")))))));
}

/** A figure with its name. */
export function card(name, value, hint) {
  return h("div", { class: "card", title: hint }, h("div", { class: "name" }, name), h("div", { class: "value" }, value));
}

/** Names and values. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
