/** The palette: one field to go to a page, do what this page offers, and find sessions and tasks. Opens without motion. */
import { Command } from 'cmdk';
import { Dialog as Radix } from 'radix-ui';
import { type ReactNode, useState } from 'react';
import { useLocation } from 'wouter';
import { Kbd } from '../components/Kbd.js';
import { StatusBadge } from '../components/StatusBadge.js';
import { useFocusReturn } from '../components/useFocusReturn.js';
import { bindingOf } from '../keyboard/keymap.js';
import { PAGES } from '../pages.js';
import type { PageAction } from './pageActions.js';
import { usePaletteSearch } from './usePaletteSearch.js';
import { useVisits } from './visits.js';

export interface PaletteProps {
  onClose: () => void;
  actions: readonly PageAction[];
}

const GROUP =
  '[&_[cmdk-group-heading]]:px-3 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:text-meta [&_[cmdk-group-heading]]:text-soft';

function matches(words: string, typed: string): boolean {
  const text = words.toLocaleLowerCase();
  return typed
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function Item({
  value,
  onSelect,
  keys,
  children,
}: {
  value: string;
  onSelect: () => void;
  keys?: string | undefined;
  children: ReactNode;
}) {
  return (
    <Command.Item
      value={value}
      onSelect={onSelect}
      className="mx-1 flex min-h-8 items-center gap-3 rounded-control px-2 text-row data-[selected=true]:bg-sunken"
    >
      {children}
      {keys !== undefined && <Kbd keys={keys} />}
    </Command.Item>
  );
}

function Name({ children }: { children: ReactNode }) {
  return (
    <span dir="auto" className="min-w-0 flex-1 truncate">
      {children}
    </span>
  );
}

export function Palette({ onClose, actions }: PaletteProps) {
  const [typed, setTyped] = useState('');
  const [, navigate] = useLocation();
  const focusReturn = useFocusReturn();
  const { found, isLooking, error } = usePaletteSearch(typed);
  const go = (path: string) => {
    onClose();
    navigate(path);
  };
  const pages = PAGES.filter((page) => matches(page.title, typed));
  // What is on the screen is no place to go to.
  const recent = useVisits().filter(({ href, title }) => href !== location.pathname && matches(title, typed));
  const offered = actions.filter((action) => matches(action.words, typed));
  return (
    <Radix.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-(--scrim)" />
        <Radix.Content
          aria-describedby={undefined}
          {...focusReturn}
          className="fixed inset-x-4 top-[12vh] z-40 mx-auto max-w-140 overflow-hidden rounded-card border border-line bg-raised shadow-layer"
        >
          <Radix.Title className="sr-only">Search, go and do</Radix.Title>
          <Command label="Search, go and do" shouldFilter={false} loop>
            <Command.Input
              value={typed}
              onValueChange={setTyped}
              maxLength={200}
              placeholder="Go to, do, or find a session or task…"
              className="w-full border-b border-line bg-transparent px-4 py-3 text-lead focus-visible:outline-offset-[-2px]"
            />
            <Command.List label="Found" className="max-h-[50vh] overflow-y-auto pb-1">
              {!isLooking && error === null && (
                <Command.Empty className="px-4 py-3 text-soft">Nothing matches.</Command.Empty>
              )}
              {recent.length > 0 && (
                <Command.Group heading="Recent" className={GROUP}>
                  {recent.map((visit) => (
                    <Item key={visit.href} value={`recent ${visit.href}`} onSelect={() => go(visit.href)}>
                      <Name>{visit.title}</Name>
                    </Item>
                  ))}
                </Command.Group>
              )}
              {offered.length > 0 && (
                <Command.Group heading="Do" className={GROUP}>
                  {offered.map((action) => (
                    <Item
                      key={action.id}
                      value={`do ${action.id}`}
                      keys={action.shortcut && bindingOf(action.shortcut).keys[0]}
                      onSelect={() => {
                        onClose();
                        action.run();
                      }}
                    >
                      {action.icon !== undefined && <action.icon size={16} aria-hidden="true" />}
                      <Name>{action.words}</Name>
                    </Item>
                  ))}
                </Command.Group>
              )}
              {pages.length > 0 && (
                <Command.Group heading="Go to" className={GROUP}>
                  {pages.map((page) => (
                    <Item
                      key={page.name}
                      value={`go ${page.name}`}
                      keys={`g ${page.letter}`}
                      onSelect={() => go(page.path)}
                    >
                      <page.icon size={16} aria-hidden="true" />
                      <Name>{page.title}</Name>
                    </Item>
                  ))}
                </Command.Group>
              )}
              {found.sessions.length > 0 && (
                <Command.Group heading="Sessions" className={GROUP}>
                  {found.sessions.map((session) => (
                    <Item
                      key={session.id}
                      value={`session ${session.id}`}
                      onSelect={() =>
                        go(
                          `/sessions/${encodeURIComponent(session.id)}${session.sequence === undefined ? '' : `?seq=${session.sequence}`}`,
                        )
                      }
                    >
                      <Name>
                        {session.title}
                        {session.snippet !== undefined && <span className="text-soft"> — {session.snippet}</span>}
                      </Name>
                      {session.status !== undefined && <StatusBadge status={session.status} />}
                    </Item>
                  ))}
                </Command.Group>
              )}
              {found.tasks.length > 0 && (
                <Command.Group heading="Sessions of a task" className={GROUP}>
                  {found.tasks.map((task) => (
                    <Item
                      key={task.id}
                      value={`task ${task.id}`}
                      onSelect={() => go(`/sessions?task=${encodeURIComponent(task.id)}`)}
                    >
                      <Name>{task.name}</Name>
                    </Item>
                  ))}
                </Command.Group>
              )}
            </Command.List>
            {error !== null && (
              <p role="alert" className="border-t border-line px-4 py-2 text-row text-error">
                {error.message}
              </p>
            )}
          </Command>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
