"""The one place that speaks SQL: tables, transactions, and a sentence for every query."""
