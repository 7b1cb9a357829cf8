// Server-sent events from the body of an answer; unlike EventSource it takes any answer and any header.

export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { data: [] };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      // A line feed that may still come after a carriage return belongs to it: wait for it.
      const complete = rest.endsWith("\r") ? rest.slice(0, -1) : rest;
      const lines = complete.split(/\r\n|\n|\r/);
      rest = lines.pop() + rest.slice(complete.length);
      for (const line of lines) {
        if (line !== "") {
          take(line, event);
          continue;
        }
        if (event.data.length || event.id !== undefined || event.retry !== undefined) {
          yield { id: event.id, retry: event.retry, data: event.data.join("\n") };
        }
        event = { data: [] };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function take(line, event) {
  const colon = line.indexOf(":");
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") event.data.push(value);
  else if (name === "id" && !value.includes("\0")) event.id = value;
  else if (name === "retry" && /^\d{1,9}$/.test(value)) event.retry = Number(value);
}
