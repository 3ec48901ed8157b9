// Tables of key groups with filters and pages: moves of a plan, and differences of two plans.
import { fill, h, table } from "./dom.js";
import { bytes, count } from "./format.js";
import { explain } from "./error_pages.js";

/** Filters above a table that is loaded again when one of them changes. */
function filtered(title, fields, load) {
  const inputs = fields.map((field) => ({ ...field, input: field.options
    ? h("select", { name: field.name }, field.options.map(([value, text]) => h("option", { value }, text)))
    : h("input", { type: "search", name: field.name, size: 14, maxlength: 300 }) }));
  const body = h("div", {});
  const values = () => Object.fromEntries(inputs.map((field) => [field.name, field.input.value.trim()]));
  const render = async () => {
    body.setAttribute("aria-busy", "true");
    try {
      fill(body, await load(values()));
    } catch (error) {
      fill(body, explain(error, {}));
    }
    body.removeAttribute("aria-busy");
  };
  for (const { input } of inputs) input.addEventListener("change", render);
  render();
  return h("section", { class: "filtered" }, h("h2", {}, title),
    h("div", { class: "row", role: "search" }, inputs.map((field) => h("label", {}, field.title, field.input))), body);
}

const NODES = [
  { name: "operator", title: "operator" },
  { name: "from_node", title: "from node" },
  { name: "to_node", title: "to node" },
];

export function pager(before, after, text, [earlier, later] = ["Earlier", "Later"]) {
  return h("div", { class: "row pager" },
    h("button", { onclick: before, disabled: before === null }, earlier),
    h("button", { onclick: after, disabled: after === null }, later), h("span", { class: "quiet" }, text));
}

/** Moves of a plan; the server reads only the row groups of a page. */
export function movesSection(plan, total, ask) {
  const order = { name: "order", title: "order", options: [["key", "by key group"], ["bytes", "largest state first"]] };
  return filtered("Moves", [...NODES, order], async (values) => {
    const holder = h("div", {});
    const starts = [null];
    const turn = async () => {
      const page = await ask({ ...values, after: starts.at(-1), limit: 100 });
      const back = starts.length > 1 ? () => { starts.pop(); turn(); } : null;
      const on = page.after === null ? null : () => { starts.push(page.after); turn(); };
      const any = values.operator || values.from_node || values.to_node;
      fill(holder, table(`Moves of ${plan}, page ${starts.length}`, MOVE_COLUMNS, page.rows, "no move is like this"),
        back || on ? pager(back, on, any ? "" : `${count(total)} moves in all`) : null);
    };
    await turn();
    return holder;
  });
}

const MOVE_COLUMNS = [
  { title: "operator", of: (row) => row.operator_id },
  { title: "key group", number: true, of: (row) => String(row.key_group) },
  { title: "from", of: (row) => row.previous_node_id },
  { title: "to", of: (row) => row.node_id },
  { title: "state", number: true, of: (row) => bytes(row.state_bytes) },
];

/** Key groups that two plans place differently. */
export function differenceSection(title, ask) {
  const size = 100;
  return filtered(title, NODES, async (values) => {
    const holder = h("div", {});
    const turn = async (offset) => {
      const page = await ask({ ...values, offset, limit: size });
      const back = offset > 0 ? () => turn(Math.max(0, offset - size)) : null;
      const on = offset + size < page.total ? () => turn(offset + size) : null;
      fill(holder,
        h("p", {}, page.total ? `${count(page.total)} of ${count(page.key_groups)} key groups are placed differently.` : "No key group is placed differently."),
        table("Key groups", DIFFERENCE_COLUMNS, page.rows, "no difference is like this"),
        back || on ? pager(back, on, `from ${count(offset + 1)}`) : null);
    };
    await turn(0);
    return holder;
  });
}

const DIFFERENCE_COLUMNS = [
  { title: "operator", of: (row) => row.operator_id },
  { title: "key group", number: true, of: (row) => String(row.key_group) },
  { title: "old", of: (row) => row.old_node_id ?? "not placed" },
  { title: "new", of: (row) => row.new_node_id ?? "not placed" },
];
