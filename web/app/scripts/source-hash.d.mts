export const repositoryRoot: string;
export function sourcePaths(root?: string): string[];
export function sourceHash(root?: string): string;
