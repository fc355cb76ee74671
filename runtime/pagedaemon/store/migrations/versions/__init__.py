"""One file per revision. A released one is never changed again."""
