// The official TypeScript client of MCP: does the steps that it is told, and prints what came of each, as JSON.
//
//     client.mjs STEPS stdio COMMAND...
//     client.mjs STEPS http URL [KEY]
//
// A step is ["tools"], ["resources"], ["templates"], ["call", name, arguments] or ["read", uri].

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";

const [steps, kind, ...rest] = process.argv.slice(2);

function transport() {
  if (kind === "stdio") {
    return new StdioClientTransport({ command: rest[0], args: rest.slice(1), cwd: process.cwd() });
  }
  const headers = rest[1] ? { Authorization: `Bearer ${rest[1]}` } : {};
  return new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers } });
}

const client = new Client({ name: "sederunt-tests", version: "1" });

const does = {
  tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  resources: async () => (await client.listResources()).resources.map((resource) => resource.uri),
  templates: async () =>
    (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate),
  call: async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    return { is_error: result.isError ?? false, value: result.structuredContent, text: result.content[0].text };
  },
  read: async (uri) => {
    const [contents] = (await client.readResource({ uri })).contents;
    return { mime_type: contents.mimeType, text: contents.text };
  },
};

await client.connect(transport());
const outcomes = [{ server: client.getServerVersion().name }];
for (const [what, ...args] of JSON.parse(steps)) {
  try {
    outcomes.push(await does[what](...args));
  } catch (error) {
    if (!(error instanceof McpError)) throw error;
    outcomes.push({ error: error.code, message: error.message });
  }
}
await client.close();
console.log(JSON.stringify(outcomes));
