// Uploads the file of an import's form in parts, and shows the progress of an import on its page.

// Sends a request again that got no response, or an error of the server: a part that arrived is not stored twice.
const post = async (url, token, body, type) => {
  for (let attempt = 1; ; attempt += 1) {
    let response;
    try {
      const headers = { "X-CSRFToken": token, "Content-Type": type };
      response = await fetch(url, { method: "POST", body, headers, signal: AbortSignal.timeout(60000) });
    } catch {
      response = null;
    }
    if (response?.redirected || response?.status === 403) {
      const text = "You were logged out, or may not upload any longer. Log in, and upload the file again.";
      throw new Error(text, { cause: "login" });
    }
    if (response?.ok) return response.json();
    const answer = await response?.json().catch(() => null);
    if (answer?.errors) throw new Error(answer.errors.join(" "), { cause: answer.fields });
    if (attempt === 4 || (response && response.status < 500)) {
      throw new Error("The upload was interrupted. Check the connection, reload this page, and upload the file again.");
    }
    await new Promise((resolve) => setTimeout(resolve, attempt * 1000));
  }
};

const prepare = (form) => {
  const input = form.elements.file;
  const button = form.querySelector("button[type=submit]");
  const bar = document.getElementById("upload-bar");
  const error = document.getElementById("upload-error");

  // `fields`: errors by the name of the field. The first of these fields gets the focus.
  const showAtFields = (fields) => {
    for (const old of form.querySelectorAll(".upload-field-error")) old.remove();
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
    const wrong = [...form.elements].filter((field) => Object.hasOwn(fields, field.name));
    for (const field of wrong) {
      const text = Object.assign(document.createElement("p"), { id: `${field.id}_error`, textContent: fields[field.name] });
      text.className = "upload-field-error mt-2 text-red-600 text-xs dark:text-red-500";
      field.closest(".group").append(text);
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", `${field.id}_helptext ${text.id}`);
    }
    showError(wrong[0]); // accessible.js
  };
  const fail = (problem) => {
    const fields = typeof problem.cause === "object" ? problem.cause : {};
    showAtFields(fields);
    error.textContent = problem.message || "Nothing was uploaded. Correct the errors below.";
    if (problem.cause === "login") {
      const link = document.createElement("a");
      [link.href, link.textContent, link.className] = [location.href, "Log in", "underline"];
      error.append(" ", link);
    }
    error.hidden = false;
    bar.hidden = true;
    button.disabled = false;
  };
  const upload = async () => {
    const file = input.files[0];
    if (!file) return fail(new Error("", { cause: { file: "Choose a file." } }));
    form.elements.file_name.value = file.name;
    form.elements.size.value = file.size;
    error.hidden = true;
    bar.hidden = false;
    bar.value = 0;
    button.disabled = true;
    try {
      const token = form.elements.csrfmiddlewaretoken.value;
      const fields = new FormData(form);
      fields.delete("file");
      const begun = await post(form.action, token, new URLSearchParams(fields), "application/x-www-form-urlencoded");
      const step = Number(form.dataset.partBytes);
      for (let offset = 0; offset < file.size; offset += step) {
        const part = file.slice(offset, offset + step);
        await post(`${begun.part}&offset=${offset}`, token, part, "application/octet-stream");
        bar.value = Math.min(1, (offset + step) / file.size);
      }
      location.reload();
    } catch (problem) {
      fail(problem);
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    upload();
  });
  button.disabled = false;
};

// Renews the progress every 2 s while the page is visible, and loads the page again when the work has ended.
const follow = (block) => {
  const bar = block.querySelector("progress");
  const text = block.querySelector("p");
  let isWaiting = false;
  const renew = async () => {
    if (isWaiting || document.hidden) return;
    isWaiting = true;
    try {
      const response = await fetch(block.dataset.url, { signal: AbortSignal.timeout(9000) });
      if (response.redirected) return location.reload(); // to the login page
      if (!response.ok) throw new Error(response.status);
      const now = await response.json();
      if (now.state !== block.dataset.state) return location.reload();
      text.textContent = now.text;
      if (now.total) [bar.max, bar.value] = [now.total, now.done];
    } catch {
      text.textContent = "The progress is unknown, because the service does not respond. The work may continue.";
    }
    isWaiting = false;
  };
  document.addEventListener("visibilitychange", renew);
  setInterval(renew, 2000);
};

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("upload-form");
  const block = document.getElementById("import-progress");
  if (form) prepare(form);
  if (block) follow(block);
});
