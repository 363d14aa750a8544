// Writes src/api/schema.ts from the checked-in description of the API. `--check` compares instead, and fails if they differ.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTypescript, { astToString } from 'openapi-typescript';

const document = new URL('../../../../api/openapi.json', import.meta.url);
const target = new URL('../src/api/schema.ts', import.meta.url);

export async function generateSchema() {
  const nodes = await openapiTypescript(document, { emptyObjectsUnknown: true });
  return `// Made from api/openapi.json by \`npm run api\`. Do not edit.\n\n${astToString(nodes)}`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const schema = await generateSchema();
  if (process.argv.includes('--check')) {
    if (schema !== (await readFile(target, 'utf8'))) {
      console.error('src/api/schema.ts does not fit api/openapi.json. Run `npm run api` in web/.');
      process.exit(1);
    }
  } else {
    await writeFile(target, schema);
  }
}
