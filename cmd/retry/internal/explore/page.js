// Asks for the answer while one types. One request is under way at a time: what
// is typed meanwhile is asked for when it has been answered.
const form = document.getElementById("form");
const answer = document.getElementById("answer");
const status = document.getElementById("status");

let asking = false;
let changed = false;

// The address has what was typed, so that it can be shared. Browsers limit how
// often it may change.
let remembering;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => history.replaceState(null, "", form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form))), 500);
}

async function ask() {
  changed = true;
  remember();
  if (asking) {
    return;
  }
  asking = true;
  while (changed) {
    changed = false;
    try {
      const response = await fetch(form.dataset.answer, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      show(response.ok, await response.text());
    } catch {
      show(false, "The program does not answer: start retry explore again.");
    }
  }
  asking = false;
}

function show(ok, text) {
  if (ok) {
    answer.innerHTML = text;
    const said = answer.querySelector("[data-status]").dataset;
    status.textContent = said.status;
    status.className = said.class;
    return;
  }
  const problem = document.createElement("p");
  problem.className = "fault";
  problem.textContent = text;
  answer.replaceChildren(problem);
  status.textContent = text;
  status.className = "fault";
}

form.addEventListener("input", ask);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
