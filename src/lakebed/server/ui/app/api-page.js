// The page at /docs: Swagger UI for this server's OpenAPI description.

/** Shows descriptions as text: the page's policy forbids the markup that Swagger UI would generate. */
const asText = ({ React }) => ({
  components: {
    Markdown: ({ source = "" }) => {
      const text = source.replace(/<\/?i>/g, "").trim(); // "<i>Default value</i> : " is from Swagger UI
      return !text || text.endsWith(":") ? null : React.createElement("div", { className: "renderedMarkdown" }, text);
    },
  },
});

// Swagger UI has dark colours; the page switches them.
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
  validatorUrl: null, // no request to an external validator
});
