// Swagger UI's dark scheme is a class.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();
