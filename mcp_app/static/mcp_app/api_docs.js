// Draws the API's own document; what is tried from here is sent with the CSRF token of the login.
"use strict";
(() => {
  const place = document.getElementById("mcp-api-docs");
  const ui = SwaggerUIBundle({
    domNode: place,
    url: place.dataset.schema,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    persistAuthorization: false,
    // Nothing is sent to anybody else.
    validatorUrl: null,
    requestInterceptor(request) {
      const isHere = new URL(request.url, location.href).origin === location.origin;
      if (isHere && request.method && request.method !== "GET") {
        request.headers["X-CSRFToken"] = place.dataset.csrf;
      }
      return request;
    },
  });
  place.classList.toggle("mcp-docs-drawn", Boolean(ui));
})();
