// The least of a way to draw: elements from data, and bringing what is shown up to them without
// taking away focus, scroll or selection. Text only ever becomes a text node.

const SVG = "http://www.w3.org/2000/svg";

function make(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const h = (name, attributes, ...children) =>
  make(document.createElement(name), attributes, children);

export const s = (name, attributes, ...children) =>
  make(document.createElementNS(SVG, name), attributes, children);

const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("data-key") : null);
const alike = (a, b) =>
  a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// Makes `old` look like `fresh`. Elements with the same data-key stay the same elements.
export function morph(old, fresh) {
  if (old.nodeType === 3) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  fill(old, [...fresh.childNodes]);
}

// Gives `parent` these children.
export function fill(parent, children) {
  const fresh = children.flat(Infinity).filter((child) => child);
  const keyed = new Map();
  for (const child of parent.childNodes) {
    const key = keyOf(child);
    if (key !== null) keyed.set(key, child);
  }
  let at = parent.firstChild;
  for (const child of fresh) {
    const key = keyOf(child);
    const known = key !== null ? keyed.get(key) : at;
    if (known && alike(known, child)) {
      if (known === at) at = at.nextSibling;
      else parent.insertBefore(known, at);
      morph(known, child);
    } else {
      parent.insertBefore(child, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export const byId = (id) => document.getElementById(id);
