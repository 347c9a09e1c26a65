// Code snippets for an object or a folder.

import { html, useState } from "./vendor/preact-htm.js";
import { Code, Dialog } from "./components.js";
import { extensionOf } from "./format.js";

/** @param {string} name @param {string} ref @param {string} place @returns {Record<string, string>} */
function texts(name, ref, place) {
  const origin = window.location.origin;
  const isFolder = place === "" || place.endsWith("/");
  const kind = extensionOf(place) === "csv" ? "csv" : "parquet";
  const uri = `lakefs://${name}/${ref}/${place}`;
  const key = `${ref}/${place}`;
  const target = isFolder ? `${place}**/*.parquet` : place;
  return {
    lakebed: `export LAKEBED_ENDPOINT=${origin}\nexport LAKEBED_ACCESS_KEY_ID=…\nexport LAKEBED_SECRET_ACCESS_KEY=…\n\n${isFolder ? `lakebed fs ls '${uri}'` : `lakebed fs cat '${uri}'`}`,
    lakectl: isFolder ? `lakectl fs ls '${uri}'` : `lakectl fs download '${uri}' .`,
    boto3: `import boto3\n\ns3 = boto3.client(\n    "s3",\n    endpoint_url="${origin}",\n    aws_access_key_id="…",\n    aws_secret_access_key="…",\n)\n` +
      (isFolder ? `s3.list_objects_v2(Bucket="${name}", Prefix="${key}")` : `s3.get_object(Bucket="${name}", Key="${key}")["Body"].read()`),
    pandas: `import pandas as pd\n\noptions = {"key": "…", "secret": "…", "client_kwargs": {"endpoint_url": "${origin}"}}\ntable = pd.read_${kind}("s3://${name}/${key}", storage_options=options)`,
    DuckDB: `CREATE SECRET (\n    TYPE s3, KEY_ID '…', SECRET '…',\n    ENDPOINT '${window.location.host}', URL_STYLE 'path', USE_SSL ${window.location.protocol === "https:"}\n);\nSELECT * FROM read_${kind}('s3://${name}/${ref}/${target}');`,
    Spark: `spark.conf.set("fs.s3a.bucket.${name}.endpoint", "${origin}")\nspark.conf.set("fs.s3a.bucket.${name}.path.style.access", "true")\n\nspark.read.${kind}("s3a://${name}/${key}")`,
    curl: isFolder ? `curl -u "$KEY:$SECRET" '${origin}/api/v1/repositories/${name}/refs/${encodeURIComponent(ref)}/objects/ls?prefix=${encodeURIComponent(place)}'`
      : `curl -u "$KEY:$SECRET" -O '${origin}/api/v1/repositories/${name}/refs/${encodeURIComponent(ref)}/objects?path=${encodeURIComponent(place)}'`,
  };
}

/** @param {{name: string, of: string, path_: string, onClose: () => void}} props */
export function Snippets({ name, of, path_, onClose }) {
  const all = texts(name, of, path_);
  const [chosen, setChosen] = useState("lakebed");
  return html`<${Dialog} title="Code snippets" onClose=${onClose} wide>
    <div class="tabs" role="tablist">${Object.keys(all).map((each) => html`<button key=${each} role="tab" aria-selected=${each === chosen} onClick=${() => setChosen(each)}>${each}</button>`)}</div>
    <${Code} text=${all[chosen]} /><p class="hint">Create keys under “My keys”. Use a commit id instead of a branch for immutable data.</p><//>`;
}
