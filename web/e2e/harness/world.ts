/** What several walks need to exist: external sessions, and a task whose steps and results the walk gives itself. */
import { type Api, type JsonObject, listOf, numberOf, objectOf, textOf } from './apiClient.js';

let made = 0;

/** A name that no other walk has used. */
export function fresh(prefix: string): string {
  return `${prefix}-${Date.now().toString(36)}${(made++).toString(36)}`;
}

/** A session that is run from outside, so that the walk writes its log. */
export async function externalSession(api: Api, title: string): Promise<string> {
  const id = fresh('walk');
  await api.post('/api/sessions', { id, session_type: 'mixed', agent_slug: 'external', title });
  return id;
}

export async function say(api: Api, session: string, texts: readonly string[]): Promise<number> {
  const events = texts.map((content) => ({ type: 'agent.message', content }));
  return numberOf(await api.post(`/api/sessions/${encodeURIComponent(session)}/events`, { events }), 'last_sequence');
}

export interface Claim {
  session: string;
  epoch: number;
  brief: JsonObject;
}

/** Takes the next pending run of this agent, as a worker does. */
export async function claim(api: Api, agent: string): Promise<Claim> {
  const answer = await api.post('/api/claims', {
    worker: 'walk',
    agent_slugs: [agent],
    wait_ms: 5000,
    lease_ms: 60_000,
  });
  const [taken] = listOf(answer, 'claims');
  if (taken === undefined) throw new Error(`Nothing waits for the agent ${agent}.`);
  return {
    session: textOf(objectOf(taken, 'session'), 'id'),
    epoch: numberOf(taken, 'epoch'),
    brief: objectOf(taken, 'brief'),
  };
}

/** A run that this walk has claimed, and whose end it decides. */
export async function runningRun(api: Api): Promise<Claim> {
  const agent = fresh('writer');
  await api.post('/api/agents', { slug: agent, name: 'Writer', instructions: 'Write.', model: 'external' });
  const task = await api.post('/api/tasks', { slug: fresh('note'), name: 'Write a note', agent_slug: agent });
  await api.post(`/api/tasks/${textOf(task, 'id')}/trigger`);
  return claim(api, agent);
}

export interface Report {
  task: string;
  taskName: string;
  entity: string;
  entityTitle: string;
  session: string;
  approval: string;
}

/** A run that reports the weather of a town, and waits for a person's approval. The town's `summary` is empty so far. */
export async function reportThatWaits(api: Api): Promise<Report> {
  const agent = fresh('reporter');
  const entityTitle = fresh('Oban');
  const entity = textOf(
    await api.post('/api/entities', { type_slug: 'town', title: entityTitle, fields: { country: 'Scotland' } }),
    'id',
  );
  await api.post('/api/agents', {
    slug: agent,
    name: 'Reporter',
    instructions: 'Report the weather.',
    model: 'external',
  });
  const taskName = `Report the weather in ${entityTitle}`;
  const task = textOf(
    await api.post('/api/tasks', {
      slug: fresh('weather'),
      name: taskName,
      agent_slug: agent,
      entity_id: entity,
      requires_approval: true,
      output: {
        type: 'entity',
        schema: {
          type: 'object',
          required: ['rain', 'summary'],
          properties: { rain: { type: 'boolean' }, summary: { type: 'string' } },
        },
      },
    }),
    'id',
  );
  await api.post(`/api/tasks/${task}/trigger`);
  const { session, epoch } = await claim(api, agent);
  await api.post(`/api/sessions/${session}/events`, {
    epoch,
    events: [{ type: 'agent.message', content: 'I have looked out of the window.' }],
  });
  await api.post(`/api/sessions/${session}/complete`, { epoch, result: { rain: true, summary: 'Rain.' } });
  const [approval] = listOf(await api.get(`/api/approvals?state=pending&session_id=${session}`), 'items');
  if (approval === undefined) throw new Error(`The session ${session} waits for no approval.`);
  return { task, taskName, entity, entityTitle, session, approval: textOf(approval, 'id') };
}
