export function generateSchema(): Promise<string>;
