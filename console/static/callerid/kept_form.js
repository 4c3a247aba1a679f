// A form that is submitted after the session has ended is filled in again after the login. Its values stay in this tab
// until the next page of the console: that of the form, after a login of the same user, has them again. Never kept are
// passwords, codes, files, searches, whole tokens and what has data-not-kept.
(() => {
  const KEY = "console-form";
  const FORMS = 'form[data-keep], #content-main > form[method="post"][id$="_form"]';
  const SECRET = '[type="password"], [autocomplete="one-time-code"]';
  // Hidden inputs are the page's own, but for these: what the page has shown, its rows, and what was chosen on it.
  const HIDDEN = /^initial-|^opened_at$|-id$|-TOTAL_FORMS$|^tokens$/;
  const user = () => document.getElementById("console-user")?.dataset.user;
  const isKept = (field) =>
    field.name && !field.matches('[data-not-kept], [type="file"], button, [type="submit"]') && !/eyJ/.test(field.value) &&
    (field.type !== "hidden" || field.matches("[data-new]") || HIDDEN.test(field.name));
  const isBox = (field) => field.type === "checkbox" || field.type === "radio";
  const stateOf = (field) => {
    if (isBox(field)) return field.checked && field.value;
    return field.options ? [...field.options].filter((each) => each.selected).map((each) => each.value) : field.value;
  };
  // Boxes of one name are told apart by their values, since there may be others by then; other fields by their place.
  const fieldsOf = (form) => Map.groupBy([...form.elements].filter(isKept), (field) => field.name);

  document.addEventListener("submit", ({ target: form }) => {
    if (form.matches('[action$="/logout/"]')) sessionStorage.removeItem(KEY);
    if (!user() || !form.matches(FORMS) || form.querySelector(SECRET)) return;
    const values = [...fieldsOf(form)].map(([name, fields]) => [name, fields.map((each) => !each.disabled && stateOf(each))]);
    sessionStorage.setItem(KEY, JSON.stringify({ user: user(), path: new URL(form.action).pathname, values }));
  }, true);

  const restore = (form, values) => {
    for (const [name, [count]] of Object.entries(values).filter(([each]) => each.endsWith("-TOTAL_FORMS"))) {
      const add = document.getElementById(name.replace("TOTAL_FORMS", "group"))?.querySelector("a.add-row, .add-row a");
      for (let n = Number(form.elements[name]?.value); add && n < Math.min(count, 1000); n += 1) add.click();
    }
    const fields = fieldsOf(form);
    let isFilled = false;
    const isOfAnotherRow = (name) => {
      const id = name.replace(/^initial-/, "").match(/^.+-\d+-/)?.[0] + "id";
      return id in values && values[id][0] !== (form.elements[id]?.value ?? "");
    };
    // What the page had shown of boxes: as many inputs as then, since another user may have changed which are ticked.
    for (const name of fields.keys()) {
      const shown = `initial-${name}`;
      if (!fields.get(name).every(isBox) || !(name in values) || isOfAnotherRow(name)) continue;
      for (const field of fields.get(shown) ?? []) field.remove();
      for (const value of values[shown] ?? []) {
        form.append(Object.assign(document.createElement("input"), { type: "hidden", name: shown, value }));
      }
      fields.delete(shown);
    }
    for (const [name, states] of Object.entries(values)) {
      if (/-id$|-TOTAL_FORMS$/.test(name) || isOfAnotherRow(name)) continue;
      (fields.get(name) ?? []).forEach((field, n) => {
        const state = states[n];
        if (!isBox(field) && (state === undefined || (field.matches("[data-new]") && !state))) return;
        isFilled = true;
        if (isBox(field)) field.checked = states.includes(field.value);
        else if (field.options) for (const each of field.options) each.selected = state.includes(each.value);
        else field.value = state;
        if (!field.matches("[data-new]")) return;
        field.disabled = false;
        field.parentElement.querySelector("[role=status]").textContent = "New customer";
      });
    }
    if (!isFilled) return;
    const note = document.createElement("p");
    note.setAttribute("role", "status");
    note.className = "console-kept";
    form.prepend(note);
    note.textContent = "What you entered before you logged in again is filled in. Check it, and submit it.";
  };

  const read = () => JSON.parse(sessionStorage.getItem(KEY));
  document.addEventListener("DOMContentLoaded", () => { // the login page, which one may leave before `load`
    const kept = read();
    const next = new URLSearchParams(location.search).get("next");
    if (!kept || user() || !next || new URL(next, location).pathname !== kept.path) return;
    sessionStorage.setItem(KEY, JSON.stringify({ ...kept, loggedIn: true }));
    const reason = document.getElementById("session-ended");
    if (reason) reason.textContent = reason.dataset.kept;
  });
  addEventListener("pageshow", () => { // after `load`, at which unfold's script begins to add rows
    const kept = read();
    if (!kept || !user()) return;
    sessionStorage.removeItem(KEY);
    const form = document.querySelector(FORMS);
    if (form && kept.loggedIn && kept.user === user() && kept.path === location.pathname) {
      restore(form, Object.fromEntries(kept.values));
    }
  });
})();
