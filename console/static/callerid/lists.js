// Marks the box of a list's table while the table fits it: only then can the headings stay in view (console.css).
document.addEventListener("DOMContentLoaded", () => {
  const table = document.getElementById("result_list");
  const box = table?.closest("[data-simplebar]");
  if (!box) return;
  const mark = () => box.classList.toggle("is-fitting", table.offsetWidth <= box.clientWidth);
  const observer = new ResizeObserver(mark);
  observer.observe(box);
  observer.observe(table);
});
