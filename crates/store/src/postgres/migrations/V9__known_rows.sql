-- Who appends asks whether a row still is the one that it wrote last.
GRANT SELECT (xmin) ON session_heads TO sederunt_append;
