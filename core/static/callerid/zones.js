// <select data-zones> of a list's filters: offers the browser's time zone beside UTC. When another one is selected, the
// times of the period are converted, so that they mean the same moments.
document.addEventListener("DOMContentLoaded", () => {
  const select = document.querySelector("select[data-zones]");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!select || !zone || zone === "UTC") return;
  const own = [...select.options].find((option) => option.value === zone) || select.appendChild(new Option(zone, zone));
  own.textContent = `${zone} (this browser)`;
  let before = select.value;
  select.addEventListener("change", () => {
    const [from, to] = [before, select.value];
    before = to;
    for (const field of select.form.querySelectorAll("input[type=datetime-local]")) {
      const label = document.querySelector(`label[for="${field.id}"]`);
      label.textContent = label.textContent.replace(/\(.*\)/, `(${to || "UTC"})`);
      // The browser knows no zone but its own and UTC.
      const at = new Date(from ? field.value : `${field.value}Z`);
      if (Number.isNaN(at.getTime()) || ![from, to].every((each) => !each || each === zone)) continue;
      const shown = to ? new Date(at.getTime() - at.getTimezoneOffset() * 60_000) : at;
      field.value = shown.toISOString().slice(0, 16);
    }
  });
});
