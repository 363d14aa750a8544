-- The database takes stock of a table once enough of it has changed, and every plan that goes by the table is made
-- anew then. By default fifty rows are enough: then a young store is planned for while there is next to nothing in
-- it, and a way that looks through a whole table is as good as any, until stock is taken again. So it waits for more.
DO $$
DECLARE
    place regclass;
BEGIN
    FOR place IN
        SELECT c.oid FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
        WHERE c.relkind = 'r' AND s.nspname IN ('{schema}', '{schema}_memory', '{schema}_crisis', '{schema}_feedback')
    LOOP
        EXECUTE format(
            'ALTER TABLE %s SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000)', place);
    END LOOP;
END $$;
