// What each rule of the policy says about a plan.
import { h } from "./dom.js";

/** One line for each rule; null for a plan without rules. */
export function rulesSection(plan) {
  const lines = (plan.rules_text ?? "").split("\n").filter(Boolean);
  if (lines.length === 0) return null;
  const restored = plan.restored_rules
    ? h("p", {}, `Broken without this plan: ${plan.restored_rules.split(",").join(", ")}.`) : null;
  return h("section", { class: "rules" }, h("h2", {}, "Rules of the policy"), restored,
    h("ul", {}, lines.map((line) => h("li", {}, line))));
}
