// <form data-once> is submitted once: a double click must not make two calls. (The server refuses the second one too.)
document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-once]");
  if (!form) {
    return;
  }
  if (form.dataset.submitted) {
    event.preventDefault();
  }
  form.dataset.submitted = "yes";
  for (const button of form.querySelectorAll("button")) {
    button.setAttribute("aria-disabled", "true");
  }
});
// Back from the page that followed: the form can be submitted again.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) {
    for (const form of document.querySelectorAll("form[data-once]")) {
      delete form.dataset.submitted;
    }
  }
});
