// The page at /docs: Swagger UI over the description of this server.

/** Descriptions are text. Swagger UI would make markup of them, which the policy of the page stops. */
const asText = ({ React }) => ({
  components: {
    Markdown: ({ source = "" }) => {
      const text = source.replace(/<\/?i>/g, "").trim(); // "<i>Default value</i> : " is its own
      return !text || text.endsWith(":") ? null : React.createElement("div", { className: "renderedMarkdown" }, text);
    },
  },
});

// It has dark colours, and leaves it to the page when to show them.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

SwaggerUIBundle({
  dom_id: "#api",
  url: "/openapi.json",
  plugins: [asText],
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  validatorUrl: null, // nobody else is told of the server
});
