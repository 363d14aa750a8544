/** Who I am, and what belongs to me in this browser: the theme, the keys, and signing out. */
import { CircleUser, Contrast, Keyboard, LogOut } from 'lucide-react';
import { useSignIn } from '../auth/SignInProvider.js';
import { Menu, MenuItem, MenuSeparator } from '../components/Menu.js';
import { useToast } from '../components/ToastProvider.js';
import { useShowShortcuts } from '../keyboard/ShortcutsDialog.js';
import { nextTheme, theme } from './theme.js';

export function AccountMenu({ isFolded }: { isFolded: boolean }) {
  const { me, signOut } = useSignIn();
  const toast = useToast();
  const showShortcuts = useShowShortcuts();
  const chosen = theme.use();
  const name = me.user?.name ?? me.user?.id ?? 'You';
  const leave = async () => {
    try {
      await signOut();
    } catch (error) {
      const reason = error instanceof Error ? error.message : '';
      toast.show({ text: `You are still signed in. ${reason}` });
    }
  };
  return (
    <Menu
      trigger={
        <button
          type="button"
          aria-label={isFolded ? `${name}, ${me.role}` : undefined}
          className="-mx-2 flex min-h-8 min-w-0 items-center gap-2 rounded-control px-2 text-row text-soft hover:bg-raised hover:text-ink"
        >
          <CircleUser size={16} aria-hidden="true" className="shrink-0" />
          {!isFolded && (
            <span dir="auto" className="truncate">
              {name} · {me.role}
            </span>
          )}
        </button>
      }
    >
      <MenuItem icon={<Contrast size={14} aria-hidden="true" />} onSelect={() => theme.set(nextTheme(chosen))}>
        Theme: {chosen}
      </MenuItem>
      <MenuItem icon={<Keyboard size={14} aria-hidden="true" />} shortcut="shortcuts" onSelect={showShortcuts}>
        Keys
      </MenuItem>
      {me.auth === 'browser' && (
        <>
          <MenuSeparator />
          <MenuItem icon={<LogOut size={14} aria-hidden="true" />} onSelect={() => void leave()}>
            Sign out
          </MenuItem>
        </>
      )}
    </Menu>
  );
}
