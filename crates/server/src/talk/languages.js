// Which languages can be chosen, and what they are called.

import { language, t } from "./words.js";

const KNOWN = "ar ca cs da de el en es fa fi fr he hi hu id it ja ko nb nl pl pt ro ru sv th tr uk vi zh".split(" ");

// The word on the button, for a person who reads no other language.
const SPEAK = {
  ar: "تحدّث", ca: "Parla", cs: "Mluvit", da: "Tal", de: "Sprechen", el: "Μιλήστε", en: "Speak", es: "Hablar", fa: "صحبت کنید", fi: "Puhu", fr: "Parler", he: "דבר",
  hi: "बोलें", hu: "Beszéljen", id: "Bicara", it: "Parla", ja: "話す", ko: "말하기", nb: "Snakk", nl: "Spreken", pl: "Mów", pt: "Falar", ro: "Vorbește", ru: "Говорить",
  sv: "Tala", th: "พูด", tr: "Konuş", uk: "Говорити", vi: "Nói", zh: "说话",
};

const RIGHT_TO_LEFT = ["ar", "fa", "he", "ur"];

export const base = (code) => code.split("-")[0];

export const speakWord = (code) => SPEAK[base(code)] ?? t("talk");
export const textDirection = (code) => (RIGHT_TO_LEFT.includes(base(code)) ? "rtl" : "ltr");

function named(code, within) {
  try {
    return new Intl.DisplayNames([within], { type: "language", fallback: "none" }).of(code) ?? null;
  } catch {
    return null;
  }
}

// In the language of the page.
export const nameOf = (code) => named(code, language() === "zh" ? "zh-CN" : "en") ?? code;

export const pairName = ({ src, tgt }) => `${nameOf(src)} → ${nameOf(tgt)}`;

// In its own language too, so that whoever speaks it finds it.
function label(code) {
  const [own, here] = [named(code, code), nameOf(code)];
  return own && own.toLowerCase() !== here.toLowerCase() ? `${here} · ${own}` : here;
}

// What is served now: the pairs, once they are known.
export class Served {
  pairs = null;

  get known() { return this.pairs !== null; }
  get isEmpty() { return this.pairs?.length === 0; }

  has({ src, tgt }) {
    if (!this.known) return true;
    const like = (served, wanted) => served === wanted || base(wanted) === served;
    return this.pairs.some((pair) => like(pair.src, src) && like(pair.tgt, tgt));
  }

  // Languages that are spoken or heard in some pair; one that goes both ways is worth more to two people.
  get languages() {
    return [...new Set((this.pairs ?? []).flatMap(({ src, tgt }) => [src, tgt]))];
  }

  // Two languages to begin with: a pair that goes both ways, or any.
  first() {
    const both = (this.pairs ?? []).filter(({ src, tgt }) => src !== tgt && this.has({ src: tgt, tgt: src }));
    const any = (this.pairs ?? []).filter(({ src, tgt }) => src !== tgt);
    const page = language();
    const wanted = (pairs) => pairs.find(({ src }) => base(src) === page) ?? pairs[0];
    return wanted(both) ?? wanted(any) ?? null;
  }
}

const byName = (a, b) => nameOf(a).localeCompare(nameOf(b), language());

function group(word, codes) {
  const made = document.createElement("optgroup");
  made.label = t(word);
  for (const code of codes.sort(byName)) made.append(new Option(label(code), code));
  return made;
}

// Fills a picker: what can be had comes first.
export function fillPicker(select, served, chosen) {
  const first = served.languages;
  const rest = [...new Set([...KNOWN, chosen])].filter((code) => !first.includes(code));
  const groups = [];
  if (first.length > 0) groups.push(group("served", first));
  groups.push(group("others", rest));
  select.replaceChildren(...groups);
  select.value = chosen;
}
