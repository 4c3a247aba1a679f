// <input role="combobox" data-suggest="URL" aria-controls="ID">: lists in ID what URL finds for a part of a name, each with
// its detail, as the editable combobox of the ARIA Authoring Practices. With data-create, also `Create "name"`, for a name that is new; once
// chosen, the field has the name, and the hidden field after it, data-new, has the choice.
(() => {
  let timer, latest;
  const listOf = (field) => document.getElementById(field.getAttribute("aria-controls"));
  const show = (field, results) => {
    const list = listOf(field);
    list.replaceChildren();
    for (const [index, { text, detail }] of results.entries()) {
      const option = list.appendChild(document.createElement("li"));
      Object.assign(option, { id: `${list.id}_${index}`, role: "option", ariaSelected: "false" });
      option.appendChild(document.createElement("bdi")).textContent = option.dataset.text = text;
      if (detail) option.appendChild(document.createElement("small")).textContent = detail;
      option.classList.toggle("is-new", text.startsWith('Create "'));
    }
    list.hidden = !results.length;
    field.setAttribute("aria-expanded", !list.hidden);
    field.removeAttribute("aria-activedescendant");
  };
  const setNew = (field, name) => {
    const parts = field.closest(".suggest");
    const choice = parts.querySelector("[data-new]");
    if (!choice) return;
    choice.disabled = !name;
    choice.value = `Create "${name}"`;
    parts.querySelector("[role=status]").textContent = name ? "New customer" : "";
  };
  const choose = (field, option) => {
    const { text } = option.dataset;
    const name = option.classList.contains("is-new") ? text.slice(8, -1) : "";
    field.value = name || text;
    setNew(field, name);
    document.getElementById(`${field.id}_error`)?.remove();
    show(field, []);
  };
  const fill = async (field) => {
    const text = (latest = field.value.trim());
    if (text.length > 100 || text.startsWith("eyJ")) return show(field, []); // no name: a token must not be in a URL
    const response = await fetch(`${field.dataset.suggest}&term=${encodeURIComponent(text)}`);
    if (!response.ok || latest !== text) return;
    const found = (await response.json()).results;
    const names = found.flatMap(({ text: each }) => [each, each.replace(/ \(#\d+\)$/, "")]).map((name) => name.toLowerCase());
    const isNew = text && !names.includes(text.toLowerCase()) && !/^(#?\d+$|Create ")|\(#\d+\)$/.test(text);
    const options = "create" in field.dataset && isNew ? [...found, { text: `Create "${text}"` }] : found;
    if (document.activeElement === field) show(field, options);
    else if ("create" in field.dataset && isNew && !found.length) setNew(field, text); // left with a name that is like no other
  };
  const on = (type, act) =>
    document.addEventListener(type, (event) => event.target.matches?.("[data-suggest]") && act(event.target, event));
  on("input", (field) => {
    setNew(field, "");
    document.getElementById(`${field.id}_error`)?.remove();
    clearTimeout(timer);
    timer = setTimeout(() => fill(field), 200);
  });
  on("focusout", (field) => {
    clearTimeout(timer);
    show(field, []);
    if ("create" in field.dataset && field.value) fill(field);
  });
  on("click", (field) => listOf(field).hidden && field.value && fill(field));
  on("keydown", (field, event) => {
    const options = [...listOf(field).children];
    const active = options.findIndex((option) => option.ariaSelected === "true");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") show(field, []);
    else if (event.key === "Enter" && active >= 0) choose(field, options[active]);
    else if (step && !options.length) fill(field);
    else if (step) {
      const next = options.at(active < 0 && step < 0 ? -1 : (active + step) % options.length);
      options.forEach((option) => (option.ariaSelected = String(option === next)));
      field.setAttribute("aria-activedescendant", next.id);
      next.scrollIntoView({ block: "nearest" });
    } else return;
    event.preventDefault();
  });
  document.addEventListener("mousedown", (event) => {
    const option = event.target.closest(".suggestions > li");
    if (!option) return;
    event.preventDefault(); // the field keeps the focus
    choose(document.querySelector(`[aria-controls="${option.parentElement.id}"]`), option);
  });
})();
