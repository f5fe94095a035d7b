"""All SQL: each row changes only through one guarded statement."""
