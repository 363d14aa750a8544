-- A person has at most one running bridge. A plain unique index would allow any number of them without a holder.
CREATE UNIQUE INDEX one_running_bridge ON session_heads (tk, coalesce(holder, ''))
    WHERE is_bridge AND status = 'running';
CREATE INDEX bridges_of_holder ON session_heads (tk, coalesce(holder, ''), sk) WHERE is_bridge;
