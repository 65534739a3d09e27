// Where things have their page. Whatever is named is named with a link.

import { h } from "./dom.js";
import { arrow } from "./words.js";

const part = encodeURIComponent;

const query = (path, wanted) => {
  const given = Object.entries(wanted).filter(([, value]) => value);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
};

export const nodeHref = (id) => `#/nodes/${part(id)}`;
export const jobHref = (id) => `#/jobs/${part(id)}`;
export const jobsHref = (wanted) => query("#/jobs", wanted);
export const sessionHref = (id, tenant) => query(`#/sessions/${part(id)}`, { tenant });
export const sessionsHref = (wanted) => query("#/sessions", wanted);

// The languages of `src->tgt` or `a<->b`.
export function languages(direction) {
  const [src, tgt] = direction.split(/<?->/);
  return { src, tgt };
}

export const explainHref = (direction) => query("#/explain", languages(direction));

export const nodeLink = (id) => (id ? h("a", { href: nodeHref(id) }, id) : "–");
// The ids of a session's jobs begin alike, and a node knows a job by an id with the same end.
export const jobLink = (id, whole) => h("a", { class: "id num", href: jobHref(id), title: id }, whole ? id : `…${id.slice(-8)}`);
export const sessionLink = (id, tenant, whole) =>
  h("a", { class: whole ? "id" : "id num", href: sessionHref(id, tenant), title: id }, whole || id.length <= 12 ? id : `${id.slice(0, 10)}…`);
export const pairLink = (direction) => h("a", { class: "num", href: explainHref(direction) }, arrow(direction));
export const codeLink = (code) => h("a", { href: jobsHref({ code }) }, h("code", {}, code));

// A text in which each of these words leads somewhere.
export function linked(text, targets) {
  for (const [word, href] of targets) {
    const at = word ? text.indexOf(word) : -1;
    if (at < 0) continue;
    const rest = targets.filter(([other]) => other !== word);
    return [...linked(text.slice(0, at), rest), h("a", { href }, word), ...linked(text.slice(at + word.length), rest)];
  }
  return text ? [text] : [];
}
