// The two halves of the table: what each person sees, and the button that is held, tapped or pressed by a key.

import { base, fillPicker, nameOf, speakWord, textDirection } from "./languages.js";
import { t, translate } from "./words.js";

// Shorter is a tap: then the turn ends by itself when nobody speaks any more.
const TAP_MS = 350;

// Browsers give neither sound nor microphone before a first gesture, and of a finger only its going up is one.
let isActive = false;
for (const gesture of ["pointerup", "keydown", "click"]) addEventListener(gesture, () => (isActive = true), { capture: true, once: true });
const mayStart = () => navigator.userActivation?.hasBeenActive ?? isActive;

export class Side {
  constructor(name, on) {
    this.name = name;
    this.root = document.getElementById(`side-${name}`);
    this.root.append(document.getElementById("side").content.cloneNode(true));
    this.part = Object.fromEntries([...this.root.querySelectorAll("[data-part]")].map((node) => [node.dataset.part, node]));
    this.language = "en";
    this.doing = "idle";
    this.part.language.id = `lang-${name}`;
    this.part.language.addEventListener("change", () => on.choose(this, this.part.language.value));
    this.part.type.addEventListener("submit", (event) => {
      event.preventDefault();
      // What was not sent stays in the field.
      const text = this.part.text.value.trim();
      if (text !== "" && on.type(this, text)) this.part.text.value = "";
    });
    this.listen(on);
  }

  // Pointer, key, and the click of a screen reader, which is neither.
  listen(on) {
    const button = this.part.talk;
    let downAt = null;
    let isLate = false;
    let handled = 0;
    const down = (isGesture) => {
      if (downAt !== null) return;
      handled = performance.now();
      if (this.isOn) {
        downAt = -1;
        return on.stop(this);
      }
      downAt = handled;
      if (isGesture || mayStart()) on.start(this, "release");
      else isLate = true;
    };
    const up = () => {
      if (downAt === null) return;
      handled = performance.now();
      const held = downAt >= 0 ? handled - downAt : -1;
      downAt = null;
      if (isLate) {
        isLate = false;
        return on.start(this, "silence");
      }
      if (held >= TAP_MS) on.stop(this);
      else if (held >= 0) on.letGo(this);
    };
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      // The finger may slide off the button and still holds it.
      try { button.setPointerCapture(event.pointerId); } catch { /* it is gone already */ }
      down(event.pointerType === "mouse");
    });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) button.addEventListener(end, up);
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    const isKey = (event) => event.key === " " || event.key === "Enter";
    button.addEventListener("keydown", (event) => {
      if (!isKey(event)) return;
      event.preventDefault();
      if (!event.repeat) down(true);
    });
    button.addEventListener("keyup", (event) => {
      if (!isKey(event)) return;
      event.preventDefault();
      up();
    });
    button.addEventListener("blur", up);
    button.addEventListener("click", () => {
      if (performance.now() - handled < 600) return;
      down(true);
      up();
    });
  }

  get isOn() { return this.doing === "listening" || this.doing === "waiting"; }

  fill(served) {
    fillPicker(this.part.language, served, this.language);
  }

  // The card of whoever holds the page is in the page's language, the one opposite in that of its reader.
  get words() { return this.name === "a" ? undefined : base(this.language); }

  t(key, values) { return t(key, values, this.words); }

  // On the button stands the word of whoever speaks.
  draw() {
    translate(this.root, this.words);
    const { part, language } = this;
    part.who.textContent = `${this.t(`side.${this.name}`)}: `;
    part.verb.textContent = speakWord(language);
    part.verb.lang = language;
    part.talk.setAttribute("aria-label", `${speakWord(language)} (${nameOf(language)})`);
    part.translation.lang = part.own.lang = part.text.lang = language;
    part.translation.dir = part.own.dir = part.text.dir = textDirection(language);
    part.text.placeholder = this.t("type");
    part.translation.dataset.hint = this.t("hint.other");
    part.own.dataset.hint = this.t("hint");
    part.doing.textContent = this.doing === "idle" ? "" : this.t(this.doing);
    part.talk.setAttribute("aria-pressed", String(this.isOn));
    this.root.dataset.doing = this.doing;
  }

  do(what) {
    this.doing = what;
    if (!this.isOn) this.level(0);
    this.draw();
  }

  // From 0 to 1, as a ring around the button.
  level(value) {
    this.part.talk.style.setProperty("--level", value.toFixed(3));
  }

  own(text, isSettled) {
    this.part.own.textContent = text;
    this.part.own.classList.toggle("settled", isSettled);
    this.trouble("");
  }

  translation(text) {
    this.part.translation.textContent = text;
  }

  trouble(text) {
    this.part.trouble.textContent = text;
    this.part.trouble.hidden = text === "";
  }
}
